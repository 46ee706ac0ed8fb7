"""The steps of a request's life: each a compare-and-set, its event row and its wake-up.

House rules: no other module writes `Request.status`; every step names the statuses it may come from through
`states.sources`; the first terminal write wins and a terminal row never changes. A step that did not take says so by
its return value: losing a race is not an error.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import IntegrityError, OperationalError
from django.db.models import F, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import audit, events, inserting, originals, runs, wakeups
from mcp_app.lifecycle.appending import append, appended
from mcp_app.lifecycle.celery_results import StoredResult
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.columns import Condition
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import insistent, transactional
from mcp_app.lifecycle.redaction import Redacted
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import Request
from mcp_app.states import TERMINAL, UNSTOPPABLE, EventKind, Stage, Status, sources

logger = logging.getLogger(__name__)

_OUTCOMES = (Status.COMPLETED, Status.FAILED)
"""How a run that nobody stopped can come out: what has a result."""
_NONE = Redacted(None, None)


def submit(submission: Submission) -> Request:
    """Store a QUEUED row, once. It is published by `publishing.publish` once this has committed."""
    try:
        return _store_insistently([submission])[0]
    except IntegrityError:
        # A commit whose answer was lost with its connection was repeated.
        if (row := Request.objects.filter(pk=submission.id).first()) is None:
            raise
        return row


def submit_where(submission: Submission, condition: Condition) -> Request | None:
    """As `submit`, where the condition holds at that moment; else None, and nothing is stored.

    None as well where a database that was away, or locked for too long, has not stored it.
    """
    within = _seconds_in_the_queue(submission.caller_limit)
    try:
        return inserting.insert_where(_columns(submission), within, condition)
    except OperationalError as error:
        logger.info("whether request %s is stored has to be asked: %s", submission.id, error)
        databases.connection().close_if_unusable_or_obsolete()
        return _stored(submission.id)  # a commit whose answer was lost with its connection


def submit_all(submissions: Sequence[Submission]) -> list[Request | Exception]:
    """The same of several, by one statement; each has its own outcome.

    A database that is away, or locked for too long, is so for all of them; else one that cannot be stored keeps out no
    other.
    """
    if len(submissions) > 1:
        try:
            return list(_store_insistently(submissions))
        except OperationalError as error:
            return [error for _ in submissions]
        except Exception as error:
            logger.debug("%d requests are stored one by one: %s", len(submissions), error)
    return [_outcome(submission) for submission in submissions]


def _outcome(submission: Submission) -> Request | Exception:
    try:
        return submit(submission)
    except Exception as error:
        return error


def _store(submissions: Sequence[Submission]) -> list[Request]:
    within = [_seconds_in_the_queue(submission.caller_limit) for submission in submissions]
    return inserting.insert([_columns(submission) for submission in submissions], within)


_store_insistently = insistent(_store)


@insistent
def _stored(request_id: UUID) -> Request | None:
    return Request.objects.filter(pk=request_id).first()


def _columns(submission: Submission) -> dict[str, Any]:
    principal = submission.principal
    return {
        "id": submission.id,
        **submission.of_itself,
        "method": submission.method,
        "tool": submission.tool,
        "protocol_version": submission.protocol_version,
        **principal.columns,
        "principal_label": principal.label,
        "user_id": principal.user_id,
        "scopes": None if principal.scopes is None else sorted(principal.scopes),
        "cancel_policy": submission.cancel_policy,
        "cooperative_grace": submission.cooperative_grace,
        "hard_grace": submission.hard_grace,
        "time_limit": submission.time_limit,
        "queue": submission.queue,
        **originals.columns(
            None,
            arguments=Redacted(submission.arguments, submission.kept_arguments),
            answers=Redacted(events.storable(submission.answers), submission.kept_answers),
        ),
        "session": submission.session,
        "parent": submission.parent,
        "depth": submission.depth,
    }


def deadline_in_the_queue(caller_limit: float | None) -> Combinable:
    """Until when a worker is to have claimed a request that is queued now."""
    return from_now(_seconds_in_the_queue(caller_limit))


def _seconds_in_the_queue(caller_limit: float | None) -> float:
    longest: float = settings.MAX_QUEUE_SECONDS
    return longest if caller_limit is None else min(longest, caller_limit)


@insistent
def claim(request_id: UUID, *, worker: UUID, pid: int) -> Request | None:
    """QUEUED → RUNNING for the one worker that may call the tool; None when it is not to be run (again), or too late.

    Past its deadline a request is supervision's to cancel. What a tool started is not begun once that tool is to stop;
    whoever asked for that closes it (`cancellation`).
    """
    return runs.claim(request_id, worker, pid)


def unstopped() -> QuerySet[Request]:
    """The requests that run and are to go on: those whose tools may start others."""
    return Request.objects.filter(status=Status.RUNNING, cancel_requested_at__isnull=True)


@insistent
def end_run(
    row: Request,
    status: Status,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    celery_result: StoredResult | None = None,
) -> bool:
    """Close a claimed row as its run mostly ends, COMPLETED or FAILED; False where anything is out of the ordinary.

    Nothing is written then, and `finish` says what becomes of it. `celery_result` is written with it.
    """
    if status not in _OUTCOMES:
        raise ValueError(f"{status} is not how a run comes out")
    ended = runs.end(row, status, result=result, error=events.storable(error), celery_result=celery_result)
    if ended:
        databases.on_commit(lambda: wakeups.wake_waiting(row))
    return ended


@transactional
def finish(
    request_id: UUID,
    status: Status,
    *,
    worker: UUID | None = None,
    fenced: bool = False,
    stage: Stage = Stage.NONE,
    result: dict[str, Any] | None = None,
    partial_result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    kept: Mapping[str, Any] = MappingProxyType({}),
) -> Status | None:
    """Close a request; the status it was given, or None when somebody else closed it, or is to.

    `worker` refuses an end from a worker that does not run it, also from one that did before it asked; and only who
    runs it may say how a run came out (COMPLETED, FAILED). `fenced` is the killer's: it closes only rows whose kill it
    began, everybody else only the others. CANCELLED needs an accepted cancellation; a failure after one is CANCELLED,
    its error kept, and so is a success after `give_up`, as its partial result. `stage` is how far the ladder went.
    `kept` is what redaction leaves of `result`, `partial_result` and `error`, of those of which it leaves out anything.
    """
    if status not in TERMINAL:
        raise ValueError(f"{status} is not an end")
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is None or not _may_close(row, status, worker, fenced=fenced):
        return None
    if status == Status.FAILED and row.cancel_requested_at is not None:
        status = Status.CANCELLED
    if status == Status.COMPLETED and row.unstoppable:  # its client has had another answer
        status = Status.CANCELLED
    values = {"result": result, "partial_result": partial_result, "error": events.storable(error)}
    ended = {name: Redacted(value, kept.get(name, value)) for name, value in values.items()}
    if status not in _OUTCOMES and result is not None:
        ended |= {"result": _NONE, "partial_result": ended["result"]}
    told = ("result", "error") if status in _OUTCOMES else ()
    written = close(row, status, stage=max(row.stage, stage), **originals.columns_at_end(row, *told, **ended))
    return status if written else None


def _may_close(row: Request, status: Status, worker: UUID | None, *, fenced: bool) -> bool:
    if row.killing != fenced or (worker is not None and (row.status != Status.RUNNING or row.worker != worker)):
        return False
    if status == Status.CANCELLED:
        return row.cancel_requested_at is not None
    return worker is not None or row.status != Status.RUNNING or status not in _OUTCOMES


@transactional
def note_late_result(request_id: UUID, status: Status) -> bool:
    """Tell in the story of a request that has ended that a run of it came out so afterwards, and was not heard."""
    ended = Request.objects.filter(pk=request_id, status__in=TERMINAL)
    if not ended.update(event_seq=F("event_seq") + 1):
        return False
    newest = ended.values_list("event_seq", flat=True).get()
    message = f"A result of its run came after its end and was discarded ({status.label})."
    events.insert(request_id, [Event(EventKind.NOTE, {"message": message})], newest)
    return True


def request_stop(row: Request, story: Event, **columns: Any) -> None:
    """Note in a running row that this transaction has locked that it is to stop; its status stays."""
    row.event_seq += 1
    Request.objects.filter(pk=row.pk).update(event_seq=row.event_seq, **columns)
    events.insert(row.pk, [story], row.event_seq)


def close(row: Request, status: Status, *, after: Sequence[Event] = (), **columns: Any) -> bool:
    """Write the end of a row that this transaction has locked, and what came right before it; whether it took."""
    unmoved = Request.objects.filter(pk=row.pk, status__in=sources(status), event_seq=row.event_seq)
    row.event_seq += len(after) + 1
    columns = {"stage": row.stage, "error": None, "originals": None} | columns
    if not unmoved.update(status=status, finished_at=Now(), deadline_at=None, event_seq=row.event_seq, **columns):
        return False
    row.status, row.stage = status, columns["stage"]
    details = {"error": columns["error"]} if columns["error"] else {}
    events.insert(row.pk, [*after, events.transition(status, **details)], row.event_seq)
    if row.cancel_requested_at is not None:
        row.refresh_from_db(fields=("cancel_requested_at", "finished_at"))
        audit.settle(row)
    databases.on_commit(lambda: wakeups.wake_waiting(row))
    return True


def move(row: Request, status: Status, told: Sequence[Event], **columns: Any) -> bool:
    """Write a step to an open status of a row that this transaction has locked, after what is `told`; whether it took.

    A step to the status it has changes columns and tells events alone.
    """
    stays = row.status == status
    unmoved = Request.objects.filter(
        pk=row.pk, status__in={status} if stays else sources(status), event_seq=row.event_seq, killing=False
    )
    story = [*told] if stays else [*told, events.transition(status)]
    if not unmoved.update(status=status, event_seq=row.event_seq + len(story), **columns):
        return False
    row.status, row.event_seq = status, row.event_seq + len(story)
    events.insert(row.pk, story, row.event_seq)
    databases.on_commit(lambda: wakeups.wake_waiting(row))
    return True


def record(request_id: UUID, pending: Sequence[Event], **columns: Any) -> bool:
    """Append progress and log events to a running request; False when it is running no more."""
    row = appended(request_id, pending, **columns)
    if row is not None:
        databases.on_commit(lambda: wakeups.wake_server(row.server, [request_id]))
    return row is not None


def reach_stage(request_id: UUID, stage: Stage) -> bool:
    """Note that the ladder reached `stage` for a running request; False when it was there already."""
    return append(request_id, [Event(EventKind.STAGE, {"stage": stage.name.lower()})], stage=stage)


def give_up(request_id: UUID) -> bool:
    """Note that a running request, which is to stop, cannot be stopped where it runs; False when it runs no more.

    Its client is answered (`endings`); it stays RUNNING until its work ends.
    """
    told = Event(EventKind.STAGE, {"stage": UNSTOPPABLE})
    if not append(request_id, [told], error={"cause": UNSTOPPABLE, "message": "it cannot be stopped where it runs"}):
        return False
    if (row := Request.objects.filter(pk=request_id).first()) is not None:
        wakeups.wake_waiting(row)
    return True


@transactional
def begin_kill(request_id: UUID, *, worker: UUID) -> bool:
    """Set the fence: only if this takes may the worker's main process kill the tool's process."""
    running = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker, killing=False)
    if not running.filter(cancel_requested_at__isnull=False).update(killing=True):
        return False
    reach_stage(request_id, Stage.KILL)
    return True
