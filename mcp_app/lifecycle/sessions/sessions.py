"""Sessions of legacy clients, stored as rows.

Any server process can serve a session. A session survives a restart of the servers.

- A session is *busy* while a call is in flight or a read waits for its user's answer.
- It is *live* while it is busy, and for `SESSION_IDLE_SECONDS` after its client's last message.
- It ends when its client or an administrator ends it, or when it is no longer live: then `find`
  does not return it, and supervision deletes its row.
- The number of sessions per principal is limited, and that of all anonymous callers together. A new
  one takes the place of the session that is not busy and was silent for longest.

Only `find` checks the principal, so that another principal's session looks like one that does not
exist. The other functions take the id of a session that `find` returned.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db import OperationalError
from django.db.models import Exists, OuterRef, Q, QuerySet

from mcp_app import databases
from mcp_app.auth.principal import Principal, is_anonymous
from mcp_app.conf import settings
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import groups
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.input import read_questions
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import ChangeVersion, Request, Session
from mcp_app.models.utc_date_time import Now
from mcp_app.states import OPEN, Cause, Outcome

logger = logging.getLogger(__name__)

BATCH = 500
ENDED = "the session was ended"
SUBJECT = "session/"
SEEN_SECONDS = 60.0
"""The time of a session's last message is stored at most this often, or ten times per
`SESSION_IDLE_SECONDS` if that is shorter."""


class TooManySessionsError(Exception):
    """There is no room for another session: too few of the caller's, or of all anonymous callers', can be ended."""


class SessionEndedError(Exception):
    """The session was deleted before its call could be stored."""


class RepeatedIdError(Exception):
    """A request with this id is still open in the session; use a new id for each request."""


class TooManyCallsError(Exception):
    """The session has `MAX_OPEN_REQUESTS_PER_PRINCIPAL` calls in flight."""


def subject(session_id: UUID) -> str:
    """Return the key of the `ChangeVersion` that is bumped whenever the session changes."""
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
    """Store a new session. Its GET stream notifies the client when one of `subjects` changes.

    Raises `TooManySessionsError`.
    """
    at_most = settings.MAX_SESSIONS_PER_PRINCIPAL
    _make_room(Session.objects.filter(**capacity.columns(principal)), at_most)
    if is_anonymous(principal):
        _make_room(_sessions_of(principal), capacity.limit_together(at_most))
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
    """End sessions that are not busy, longest silent first, until one more fits into `at_most`.

    Raises `TooManySessionsError`.
    """
    excess = sessions.count() - at_most + 1
    if excess <= 0:
        return
    candidates = list(sessions.exclude(_busy()).order_by("seen_at").values_list("pk", flat=True)[:excess])
    idle = _lock_and_filter(candidates, ~_busy())
    if len(idle) < excess:
        raise TooManySessionsError
    _delete(idle)


def find(session_id: UUID, principal: Principal) -> Session | None:
    """Return the principal's session if it is live, and record that its client is active."""
    session = _sessions_of(principal).filter(_live()).filter(pk=session_id).first()
    if session is not None:
        try:
            touch(session_id)
        except OperationalError as error:
            # Continue: a tool in this database may hold the lock that `touch` needs, and this message may be the one
            # that cancels it.
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
    """Subscribe a session to changes of `uri`. `resource` is the subject of the resource's `ChangeVersion`.

    Return false if the session has no room for another subscription.
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
    """Return the session's current row, or `None` if it was deleted."""
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
    # Without this submission itself: the commit is repeated if its confirmation was lost.
    open_calls = Request.objects.filter(session=submission.session, status__in=OPEN).exclude(pk=submission.id)
    ids = list(open_calls.values_list("jsonrpc_id", flat=True))
    if any(_is_same_id(jsonrpc_id, submission.jsonrpc_id) for jsonrpc_id in ids):
        raise RepeatedIdError
    if len(ids) >= settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
        raise TooManyCallsError
    return transitions.submit(submission)


def find_call_id(session_id: UUID, jsonrpc_id: str | int) -> UUID | None:
    """Return the key of the newest call of the session, open or ended, with this JSON-RPC id."""
    calls = Request.objects.filter(session=session_id, jsonrpc_id=jsonrpc_id).order_by("-submitted_at")
    found = calls.values_list("pk", "jsonrpc_id")
    return next((pk for pk, stored in found if _is_same_id(stored, jsonrpc_id)), None)


def end(session_id: UUID, *, actor: Actor, cause: Cause = Cause.CLIENT, reason: str = ENDED) -> int:
    """Delete a session and cancel its calls, for its client or an administrator.

    If this process dies after the deletion, supervision cancels the remaining calls, in the client's
    name.

    Return the number of calls whose cancellation was accepted.
    """
    # Calls are cancelled before the deletion, because supervision would cancel those of a deleted session with its own
    # cause. And after it, because a call may have been stored in between. None can be stored later.
    accepted = _cancel_calls(session_id, cause, actor, reason)
    _delete([session_id])
    return accepted + _cancel_calls(session_id, cause, actor, reason)


def _cancel_calls(session_id: UUID, cause: Cause, actor: Actor, reason: str) -> int:
    try:
        outcomes = groups.cancel(groups.of_session(session_id), cause=cause, actor=actor, reason=reason)
    except OperationalError:
        logger.exception(
            "session %s is ending, but its calls could not be cancelled; supervision cancels them", session_id
        )
        return 0
    return outcomes[Outcome.ACCEPTED]


def cancel_orphaned_calls() -> None:
    """Cancel the calls of deleted sessions, in their clients' names. A step of supervision."""
    calls = Request.objects.filter(session__isnull=False, status__in=OPEN, cancel_requested_at__isnull=True)
    orphans = calls.exclude(Exists(Session.objects.filter(pk=OuterRef("session")))).order_by("submitted_at")
    found = orphans.values_list("session", "principal_label")[:BATCH]
    for session_id, label in dict.fromkeys(found):
        if session_id is not None:
            groups.cancel(groups.of_session(session_id), cause=Cause.CLIENT, actor=Actor(label), reason=ENDED)


def expire() -> None:
    """Delete sessions that were idle for too long. A step of supervision."""
    expired = Session.objects.exclude(_live()).order_by("seen_at").values_list("pk", flat=True)[:BATCH]
    if session_ids := list(expired):
        _delete_expired(session_ids)


@transactional
def _delete_expired(session_ids: list[UUID]) -> None:
    _delete(_lock_and_filter(session_ids, ~_live()))


def _lock_and_filter(session_ids: list[UUID], condition: Q) -> list[UUID]:
    """Lock these sessions until the transaction ends, and return those that still meet the condition.

    No call can be added to them until then, because `submit` takes the same lock.
    """
    chosen = Session.objects.filter(pk__in=session_ids)
    list(chosen.select_for_update().order_by("pk").values_list("pk", flat=True))
    return list(chosen.filter(condition).values_list("pk", flat=True))


def _sessions_of(principal: Principal) -> QuerySet[Session]:
    return Session.objects.filter(**principal.columns)


def _live() -> Q:
    return Q(seen_at__gte=from_now(-settings.SESSION_IDLE_SECONDS)) | _busy()


def _busy() -> Q:
    """Return the condition that a call is in flight, or that a read waits for its user's answer."""
    open_calls = Request.objects.filter(session=OuterRef("pk"), status__in=OPEN)
    return Q(Exists(open_calls)) | Q(Exists(read_questions.asked_of("pk")))


@transactional
def _delete(session_ids: list[UUID]) -> None:
    Session.objects.filter(pk__in=session_ids).delete()
    read_questions.forget_session(session_ids)
    # Notifies the sessions' connections. Supervision deletes these versions later (`change_versions`).
    ChangeVersion.bump_known(map(subject, session_ids))
    databases.on_commit(wakeups.wake_servers)


def notify_changed(session_id: UUID) -> None:
    """Make every connection of the session read its row again after the commit."""
    ChangeVersion.bump(subject(session_id))
    databases.on_commit(wakeups.wake_servers)


def _is_same_id(left: object, right: object) -> bool:
    """Return whether two JSON-RPC ids are equal, including their type: 1 is not "1"."""
    return type(left) is type(right) and left == right
