"""Sessions of legacy clients, stored as rows.

Any server process can serve a session, and it survives a restart. A session ends when its client
ends it, or after `SESSION_IDLE_SECONDS` without a message. It is not idle while a call is in
flight.

A session is always looked up by its principal, so that another principal's session looks like one
that does not exist. The number of sessions per principal is limited: if a new one would exceed the
limit, the idle session with the oldest message ends.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db import OperationalError
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.auth.principal import Principal, is_anonymous
from mcp_app.conf import settings
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import groups
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.locks import transactional
from mcp_app.lifecycle.input import read_questions
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import ChangeVersion, Request, Session
from mcp_app.states import OPEN, Cause, Outcome

logger = logging.getLogger(__name__)

BATCH = 500
ENDED = "the session was ended"
SUBJECT = "session/"
SEEN_SECONDS = 60.0
"""The time of a session's last message is stored at most this often."""


class TooManySessionsError(Exception):
    """The caller, or all anonymous callers together, have too many sessions, all of them busy."""


class SessionEndedError(Exception):
    """The session has ended in the meantime."""


class RepeatedIdError(Exception):
    """A request with this id is in flight in the session."""


class TooManyCallsError(Exception):
    """The session has as many calls in flight as a principal may have."""


def subject(session_id: UUID) -> str:
    """Return the subject of a session's `ChangeVersion`, which changes when the session does."""
    return f"{SUBJECT}{session_id.hex}"


@transactional
def begin(
    principal: Principal,
    *,
    protocol_version: str,
    client_info: Mapping[str, Any],
    client_capabilities: Mapping[str, Any],
    subjects: Collection[str],
) -> Session:
    """Store a new session, whose GET stream notifies of changes of `subjects`.

    Raises `TooManySessionsError`.
    """
    at_most = settings.MAX_SESSIONS_PER_PRINCIPAL
    _make_room(Session.objects.filter(**capacity.columns(principal)), at_most)
    if is_anonymous(principal):
        _make_room(_of(principal), capacity.limit_together(at_most))
    versions = observation.versions(subjects)
    session = Session.objects.create(
        **capacity.columns(principal),
        principal_label=principal.label,
        protocol_version=protocol_version,
        client_info=dict(client_info),
        client_capabilities=dict(client_capabilities),
        told={subject: [versions.get(subject, 0), 0] for subject in subjects},
    )
    ChangeVersion.bump(subject(session.pk))
    return session


def _make_room(sessions: QuerySet[Session], at_most: int) -> None:
    """End as many idle sessions, oldest message first, as one more session takes.

    Raises `TooManySessionsError`.
    """
    excess = sessions.count() - at_most + 1
    if excess <= 0:
        return
    silent = list(sessions.exclude(_busy()).order_by("seen_at").values_list("pk", flat=True)[:excess])
    idle = _lock_where(silent, ~_busy())
    if len(idle) < excess:
        raise TooManySessionsError
    _forget(idle)


def find(session_id: UUID, principal: Principal) -> Session | None:
    """Return the principal's live session and record its client's activity, or return `None`."""
    session = _of(principal).filter(_live()).filter(pk=session_id).first()
    if session is not None:
        try:
            touch(session_id)
        except OperationalError as error:
            # Go on: the message may be a cancellation of the call that holds the lock.
            logger.warning("the last use of session %s could not be stored: %s", session_id, error)
    return session


def touch(session_id: UUID) -> None:
    """Record that the session's client is active, unless that was recorded recently."""
    interval = min(SEEN_SECONDS, settings.SESSION_IDLE_SECONDS / 10)
    if Session.objects.filter(pk=session_id, seen_at__lt=from_now(-interval)).exists():
        _note_seen(session_id)


@transactional
def _note_seen(session_id: UUID) -> None:
    Session.objects.filter(pk=session_id).update(seen_at=Now())


@transactional
def set_log_level(session_id: UUID, level: str) -> None:
    if Session.objects.filter(pk=session_id).update(log_level=level):
        notify_changed(session_id)


@transactional
def subscribe(session_id: UUID, uri: str, resource: str) -> bool:
    """Subscribe a session to changes of `uri`, whose subject is `resource`.

    Return false if the session has too many subscriptions.
    """
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is None or uri in session.subscriptions:
        return True
    if len(session.subscriptions) >= settings.MAX_RESOURCE_SUBSCRIPTIONS:
        return False
    session.subscriptions.append(uri)
    session.told[resource] = [observation.versions([resource]).get(resource, 0), 0]
    session.save(update_fields=["subscriptions", "told"])
    notify_changed(session_id)
    return True


@transactional
def unsubscribe(session_id: UUID, uri: str, resource: str) -> None:
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is not None and uri in session.subscriptions:
        session.subscriptions.remove(uri)
        session.told.pop(resource, None)
        session.save(update_fields=["subscriptions", "told"])
        notify_changed(session_id)


def reload(session_id: UUID) -> Session | None:
    """Return the session's current row, or `None` if it has ended."""
    return Session.objects.filter(pk=session_id).first()


@transactional
def submit(submission: Submission) -> Request:
    """Store a call of a session.

    Raises `SessionEndedError`, `RepeatedIdError` or `TooManyCallsError`.
    """
    assert submission.session is not None, "calls without a session go to `transitions`"
    # Locks the session's row, so that two calls with the same id are checked one after the other.
    if Session.objects.select_for_update().filter(pk=submission.session).first() is None:
        raise SessionEndedError
    open_calls = Request.objects.filter(session=submission.session, status__in=OPEN).exclude(pk=submission.id)
    ids = list(open_calls.values_list("jsonrpc_id", flat=True))
    if any(_is_same_id(jsonrpc_id, submission.jsonrpc_id) for jsonrpc_id in ids):
        raise RepeatedIdError
    if len(ids) >= settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
        raise TooManyCallsError
    return transitions.submit(submission)


def find_call_id(session_id: UUID, jsonrpc_id: str | int) -> UUID | None:
    """Return the key of the session's call with this JSON-RPC id: the newest one, or `None`."""
    calls = Request.objects.filter(session=session_id, jsonrpc_id=jsonrpc_id).order_by("-submitted_at")
    found = calls.values_list("pk", "jsonrpc_id")
    return next((pk for pk, stored in found if _is_same_id(stored, jsonrpc_id)), None)


def end(session_id: UUID, *, actor: Actor, cause: Cause = Cause.CLIENT, reason: str = ENDED) -> int:
    """Delete a session and cancel its calls, for its client or an administrator.

    If this process dies in between, supervision cancels the remaining calls in the client's name.

    Return the number of calls whose cancellation was accepted.
    """
    # Before, because supervision would cancel the calls of a deleted session with its own cause.
    # And after, because no call can be added to a deleted session.
    stopped = _cancel_calls(session_id, cause, actor, reason)
    _forget([session_id])
    return stopped + _cancel_calls(session_id, cause, actor, reason)


def _cancel_calls(session_id: UUID, cause: Cause, actor: Actor, reason: str) -> int:
    try:
        outcomes = groups.cancel(groups.of_session(session_id), cause=cause, actor=actor, reason=reason)
    except OperationalError:
        logger.exception("the calls of session %s, which was ended, are left to supervision", session_id)
        return 0
    return outcomes[Outcome.ACCEPTED]


def cancel_calls_of_ended() -> None:
    """Cancel the calls of deleted sessions, in their clients' names. A step of supervision."""
    calls = Request.objects.filter(session__isnull=False, status__in=OPEN, cancel_requested_at__isnull=True)
    orphans = calls.exclude(Exists(Session.objects.filter(pk=OuterRef("session")))).order_by("submitted_at")
    found = orphans.values_list("session", "principal_label")[:BATCH]
    for session_id, label in dict.fromkeys(found):
        if session_id is not None:
            groups.cancel(groups.of_session(session_id), cause=Cause.CLIENT, actor=Actor(label), reason=ENDED)


def expire() -> None:
    """Delete sessions that were idle for too long. A step of supervision."""
    silent = Session.objects.exclude(_live()).order_by("seen_at").values_list("pk", flat=True)[:BATCH]
    if session_ids := list(silent):
        _forget_silent(session_ids)


@transactional
def _forget_silent(session_ids: list[UUID]) -> None:
    _forget(_lock_where(session_ids, ~_live()))


def _lock_where(session_ids: list[UUID], condition: Q) -> list[UUID]:
    """Lock these sessions, and return those for which the condition (still) holds.

    No call can be added to them before they are deleted.
    """
    chosen = Session.objects.filter(pk__in=session_ids)
    list(chosen.select_for_update().order_by("pk").values_list("pk", flat=True))
    return list(chosen.filter(condition).values_list("pk", flat=True))


def _of(principal: Principal) -> QuerySet[Session]:
    return Session.objects.filter(**principal.columns)


def _live() -> Q:
    return Q(seen_at__gte=from_now(-settings.SESSION_IDLE_SECONDS)) | _busy()


def _busy() -> Q:
    """Return the condition that a call is in flight, or that a read waits for its user."""
    open_calls = Request.objects.filter(session=OuterRef("pk"), status__in=OPEN)
    return Q(Exists(open_calls)) | Q(Exists(read_questions.asked_of("pk")))


@transactional
def _forget(session_ids: list[UUID]) -> None:
    Session.objects.filter(pk__in=session_ids).delete()
    read_questions.forget_session(session_ids)
    # Notifies the sessions' connections. Supervision deletes the versions later
    # (`change_versions`).
    ChangeVersion.bump_known(map(subject, session_ids))
    databases.on_commit(wakeups.wake_servers)


def notify_changed(session_id: UUID) -> None:
    """Make every connection of the session read its row again after the commit."""
    ChangeVersion.bump(subject(session_id))
    databases.on_commit(wakeups.wake_servers)


def _is_same_id(left: object, right: object) -> bool:
    """Return whether two JSON-RPC ids are equal, including their type: 1 is not "1"."""
    return type(left) is type(right) and left == right
