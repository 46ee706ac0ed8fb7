"""Sessions of legacy clients, as rows: any process answers one, a restart keeps it, silence ends it.

Everything is looked up through the principal; another's session is as unknown as one that has ended. Refuses to grow
without bound: a principal with too many loses the one that was silent for longest.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db import OperationalError
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle import groups, observation, read_questions, transitions, wakeups
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import ChangeVersion, Request, Session
from mcp_app.states import OPEN, Cause, Outcome

logger = logging.getLogger(__name__)

BATCH = 500
ENDED = "the session was ended"
SUBJECT = "session/"
SEEN_SECONDS = 60.0
"""A session's last sign of life is noted at most this often."""


class TooManySessionsError(Exception):
    """All sessions that the principal may have are busy."""


class SessionEndedError(Exception):
    """The session was ended meanwhile."""


class RepeatedIdError(Exception):
    """A request with this id is in flight in the session."""


class TooManyCallsError(Exception):
    """The session has as many calls in flight as a principal may."""


def subject(session_id: UUID) -> str:
    """The `ChangeVersion` of a session: changed when it is ended or set otherwise."""
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
    """Store a new session, whose GET stream is to tell changes of `subjects`. Raises `TooManySessionsError`."""
    own = _of(principal)
    excess = own.count() - settings.MAX_SESSIONS_PER_PRINCIPAL + 1
    if excess > 0:
        silent = list(own.exclude(_busy()).order_by("seen_at").values_list("pk", flat=True)[:excess])
        idle = _still(silent, ~_busy())
        if len(idle) < excess:
            raise TooManySessionsError
        _forget(idle)
    versions = observation.versions(subjects)
    session = Session.objects.create(
        **principal.columns,
        principal_label=principal.label,
        protocol_version=protocol_version,
        client_info=dict(client_info),
        client_capabilities=dict(client_capabilities),
        told={subject: [versions.get(subject, 0), 0] for subject in subjects},
    )
    ChangeVersion.bump(subject(session.pk))
    return session


def find(session_id: UUID, principal: Principal) -> Session | None:
    """The principal's live session, its sign of life noted if it can be; None is all that is said of any other."""
    session = _of(principal).filter(_live()).filter(pk=session_id).first()
    if session is not None:
        try:
            touch(session_id)
        except OperationalError as error:  # what it brings may be the cancellation of whatever holds the lock
            logger.warning("the sign of life of session %s was not noted: %s", session_id, error)
    return session


def touch(session_id: UUID) -> None:
    """Note that the session's client is there, if that was not noted for a while."""
    interval = min(SEEN_SECONDS, settings.SESSION_IDLE_SECONDS / 10)
    if Session.objects.filter(pk=session_id, seen_at__lt=from_now(-interval)).exists():
        _note_seen(session_id)


@transactional
def _note_seen(session_id: UUID) -> None:
    Session.objects.filter(pk=session_id).update(seen_at=Now())


@transactional
def set_log_level(session_id: UUID, level: str) -> None:
    if Session.objects.filter(pk=session_id).update(log_level=level):
        changed(session_id)


@transactional
def subscribe(session_id: UUID, uri: str, resource: str) -> bool:
    """Have changes of `resource`, the subject of `uri`, told from now on; False when too many are."""
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is None or uri in session.subscriptions:
        return True
    if len(session.subscriptions) >= settings.MAX_RESOURCE_SUBSCRIPTIONS:
        return False
    session.subscriptions.append(uri)
    session.told[resource] = [observation.versions([resource]).get(resource, 0), 0]
    session.save(update_fields=["subscriptions", "told"])
    changed(session_id)
    return True


@transactional
def unsubscribe(session_id: UUID, uri: str, resource: str) -> None:
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is not None and uri in session.subscriptions:
        session.subscriptions.remove(uri)
        session.told.pop(resource, None)
        session.save(update_fields=["subscriptions", "told"])
        changed(session_id)


def reload(session_id: UUID) -> Session | None:
    """The session as it is now, for a connection that has it; None when it has ended."""
    return Session.objects.filter(pk=session_id).first()


@transactional
def submit(submission: Submission) -> Request:
    """Store a call of a session. Raises `SessionEndedError`, `RepeatedIdError`, `TooManyCallsError`."""
    assert submission.session is not None, "calls without a session go to `transitions`"
    # The session's row is the lock that two calls with one id take in turn.
    if Session.objects.select_for_update().filter(pk=submission.session).first() is None:
        raise SessionEndedError
    open_calls = Request.objects.filter(session=submission.session, status__in=OPEN).exclude(pk=submission.id)
    ids = list(open_calls.values_list("jsonrpc_id", flat=True))
    if any(_same(jsonrpc_id, submission.jsonrpc_id) for jsonrpc_id in ids):
        raise RepeatedIdError
    if len(ids) >= settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
        raise TooManyCallsError
    return transitions.submit(submission)


def call_named(session_id: UUID, jsonrpc_id: str | int) -> UUID | None:
    """The session's call that has this id, its JSON type included: the one in flight, else the last that ended."""
    calls = Request.objects.filter(session=session_id, jsonrpc_id=jsonrpc_id).order_by("-submitted_at")
    found = calls.values_list("pk", "jsonrpc_id")
    return next((pk for pk, stored in found if _same(stored, jsonrpc_id)), None)


def end(session_id: UUID, *, actor: Actor, cause: Cause = Cause.CLIENT, reason: str = ENDED) -> int:
    """Forget the session and cancel its calls, as its client, or an administrator, asks; how many calls that stopped.

    Should this process die in between, supervision cancels what is left, in its client's name.
    """
    # Before, as supervision takes those of a session that is gone; and after, when no call is added to it any more.
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
    """Finish the end of a session whose process died in between, as who ended it. A step of supervision."""
    calls = Request.objects.filter(session__isnull=False, status__in=OPEN, cancel_requested_at__isnull=True)
    orphans = calls.exclude(Exists(Session.objects.filter(pk=OuterRef("session")))).order_by("submitted_at")
    found = orphans.values_list("session", "principal_label")[:BATCH]
    for session_id, label in dict.fromkeys(found):
        if session_id is not None:
            groups.cancel(groups.of_session(session_id), cause=Cause.CLIENT, actor=Actor(label), reason=ENDED)


def expire() -> None:
    """Forget sessions that were silent for too long; those that are busy stay. A step of supervision."""
    silent = Session.objects.exclude(_live()).order_by("seen_at").values_list("pk", flat=True)[:BATCH]
    if session_ids := list(silent):
        _forget_silent(session_ids)


@transactional
def _forget_silent(session_ids: list[UUID]) -> None:
    _forget(_still(session_ids, ~_live()))


def _still(session_ids: list[UUID], condition: Q) -> list[UUID]:
    """Those of which the condition holds, locked: no call comes to them before they are forgotten."""
    chosen = Session.objects.filter(pk__in=session_ids)
    list(chosen.select_for_update().order_by("pk").values_list("pk", flat=True))
    return list(chosen.filter(condition).values_list("pk", flat=True))


def _of(principal: Principal) -> QuerySet[Session]:
    return Session.objects.filter(**principal.columns)


def _live() -> Q:
    return Q(seen_at__gte=from_now(-settings.SESSION_IDLE_SECONDS)) | _busy()


def _busy() -> Q:
    """A call is in flight, or a read waits for its user."""
    open_calls = Request.objects.filter(session=OuterRef("pk"), status__in=OPEN)
    return Q(Exists(open_calls)) | Q(Exists(read_questions.asked_of("pk")))


@transactional
def _forget(session_ids: list[UUID]) -> None:
    Session.objects.filter(pk__in=session_ids).delete()
    read_questions.forget_session(session_ids)
    # Gone is a change as well, for whoever listens; the versions are forgotten later.
    ChangeVersion.bump_known(map(subject, session_ids))
    databases.on_commit(wakeups.wake_servers)


def changed(session_id: UUID) -> None:
    """Have every connection of the session look at its row again, after the commit."""
    ChangeVersion.bump(subject(session_id))
    databases.on_commit(wakeups.wake_servers)


def _same(left: object, right: object) -> bool:
    """Ids are equal with their JSON type: 1 is not "1"."""
    return type(left) is type(right) and left == right
