"""The steps of a request's life. No other module writes `Request.status`.

Theory of operation
-------------------

    submit ──> QUEUED ──claim──> RUNNING ──end_run, finish──> COMPLETED, FAILED, CANCELLED, LOST
                 ^                  │
                 │                 move (the tool asks its user)
                 │                  v
                 └─move (answers)── INPUT_REQUIRED

    QUEUED, INPUT_REQUIRED ──cancel_waiting──> CANCELLED
    QUEUED, INPUT_REQUIRED ──finish──> FAILED

1. Each step is a compare-and-set: it changes the row only if the row still has a status from which the step is
   allowed (`states.sources`). If two processes take steps at the same time, one of them succeeds. Only `request_stop`
   and `cancel_waiting` have no condition: `cancellation` calls them with rows that it has locked and checked.
2. The first terminal write wins. A terminal row never changes its status again.
3. A step that lost such a race says so by its return value. Losing a race is not an error.
4. Each step appends events to the request's history, in the same statement or transaction. Their numbers come from
   `Request.event_seq`, so they have no gaps, and a client can resume after any of them.
5. After the commit the step wakes the server process that waits for the request. `submit` and `claim` wake no process:
   a client has nothing to receive from them.

`submit`, `claim`, `end_run` and the appending steps are single statements (`statements`). The others lock the row in a
transaction.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import IntegrityError, OperationalError
from django.db.models import F, QuerySet
from django.db.models.expressions import Combinable

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import redaction
from mcp_app.lifecycle.audit import attempts
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.database.retries import insistent, transactional
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.redaction import Redacted
from mcp_app.lifecycle.requests import events, statements
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.statements import Addition
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import TERMINAL, UNSTOPPABLE, EventKind, Stage, Status, sources

logger = logging.getLogger(__name__)

_OUTCOMES = (Status.COMPLETED, Status.FAILED)
"""The statuses of a run that was not stopped. They have a result."""
_NONE = Redacted(None, None)


def submit(submission: Submission) -> Request:
    """Store a QUEUED row. Storing the same submission again returns the same row."""
    try:
        return _store_insistently([submission])[0]
    except IntegrityError:
        # The commit was repeated, because its confirmation was lost with the connection.
        if (row := Request.objects.filter(pk=submission.id).first()) is None:
            raise
        return row


def submit_all(submissions: Sequence[Submission]) -> list[Request | Exception]:
    """Store several QUEUED rows with one statement. Return an outcome for each.

    If the database is away or locked, all fail. If a single row cannot be stored, the others are stored one by one.
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
    rows = [Request(**_columns(submission)) for submission in submissions]
    statements.submit(rows)
    return rows


_store_insistently = insistent(_store)


def _columns(submission: Submission) -> dict[str, Any]:
    principal = submission.principal
    return {
        "id": submission.id,
        **submission.of_itself,
        "method": submission.method,
        "tool": submission.tool,
        "protocol_version": submission.protocol_version,
        **principal.columns,
        "network": principal.network,
        "principal_label": principal.label,
        "user_id": principal.user_id,
        "scopes": None if principal.scopes is None else sorted(principal.scopes),
        "cancel_policy": submission.cancel_policy,
        "cooperative_grace": submission.cooperative_grace,
        "hard_grace": submission.hard_grace,
        "time_limit": submission.time_limit,
        "queue": submission.queue,
        **redaction.columns(
            None,
            arguments=Redacted(submission.arguments, submission.kept_arguments),
            answers=Redacted(storable(submission.answers), submission.kept_answers),
        ),
        "session": submission.session,
        "parent": submission.parent,
        "depth": submission.depth,
    }


def deadline_in_the_queue(caller_limit: float | None) -> Combinable:
    """Return the time by which a worker must claim a request that is queued now."""
    longest: float = settings.MAX_QUEUE_SECONDS
    return from_now(longest if caller_limit is None else min(longest, caller_limit))


@insistent
def claim(request_id: UUID, *, worker: UUID, pid: int) -> Request | None:
    """QUEUED → RUNNING, for the one worker that may call the tool. Return `None` if it must not run.

    A request does not run twice, nor past its deadline (supervision cancels it), nor if the tool that started it must
    stop (`cancellation` closes it).
    """
    return statements.claim(request_id, worker, pid)


def unstopped() -> QuerySet[Request]:
    """Return the running requests that must not stop. Only their tools may start other calls."""
    return Request.objects.filter(status=Status.RUNNING, cancel_requested_at__isnull=True)


@insistent
def end_run(
    row: Request,
    status: Status,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> bool:
    """Close a claimed row as COMPLETED or FAILED in the ordinary case, with one statement.

    Returns `False`, and writes nothing, if anything is out of the ordinary; then call `finish`.
    """
    if status not in _OUTCOMES:
        raise ValueError(f"{status} is not how a run comes out")
    ended = statements.end(row, status, result=result, error=storable(error))
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
    """Close a request. Return the status that it got, or `None` if another process has closed it or must.

    - `worker`: the worker that runs the request; given, only its own running request is closed. Without it, a running
      request may not become COMPLETED or FAILED.
    - `fenced`: for the process that kills the tool. It closes only rows whose kill it has begun (`begin_kill`), and
      all other callers only other rows.
    - CANCELLED needs an accepted cancellation. A failure after one becomes CANCELLED and keeps its error. A success
      after `give_up` becomes CANCELLED with a partial result.
    - `stage`: the highest stage of the stop.
    - `kept`: the redacted values of `result`, `partial_result` and `error`, if redaction changes them.
    """
    if status not in TERMINAL:
        raise ValueError(f"{status} is not an end")
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is None or not _may_close(row, status, worker, fenced=fenced):
        return None
    if status == Status.FAILED and row.cancel_requested_at is not None:
        status = Status.CANCELLED
    if status == Status.COMPLETED and row.unstoppable:  # its client has already received an error
        status = Status.CANCELLED
    values = {"result": result, "partial_result": partial_result, "error": storable(error)}
    ended = {name: Redacted(value, kept.get(name, value)) for name, value in values.items()}
    if status not in _OUTCOMES and result is not None:
        ended |= {"result": _NONE, "partial_result": ended["result"]}
    needed = ("result", "error") if status in _OUTCOMES else ()
    written = close(row, status, stage=max(row.stage, stage), **redaction.columns_at_end(row, *needed, **ended))
    return status if written else None


def _may_close(row: Request, status: Status, worker: UUID | None, *, fenced: bool) -> bool:
    if row.killing != fenced or (worker is not None and (row.status != Status.RUNNING or row.worker != worker)):
        return False
    if status == Status.CANCELLED:
        return row.cancel_requested_at is not None
    return worker is not None or row.status != Status.RUNNING or status not in _OUTCOMES


def note_late_result(request_id: UUID, status: Status) -> bool:
    """Note in the history of an ended request that a run of it ended later, and that its result was discarded."""
    return _note_after_end(
        request_id, f"A run returned a result after the request had ended; the result was discarded ({status.label})."
    )


def note_leftovers(request_id: UUID) -> bool:
    """Note in the history of an ended request that processes which it started could not be killed."""
    return _note_after_end(request_id, "Processes that it started could not be killed, and may still run.")


@transactional
def _note_after_end(request_id: UUID, message: str) -> bool:
    ended = Request.objects.filter(pk=request_id, status__in=TERMINAL)
    if not ended.update(event_seq=F("event_seq") + 1):
        return False
    newest = ended.values_list("event_seq", flat=True).get()
    events.insert(request_id, [Event(EventKind.NOTE, {"message": message})], newest)
    return True


def request_stop(rows: Sequence[Request], event: Event, **columns: Any) -> None:
    """Mark running rows, which this transaction has locked, as to be stopped. Their status does not change."""
    _update_all(rows, [event], columns)


def cancel_waiting(rows: Sequence[Request], event: Event, **columns: Any) -> None:
    """Set rows that no worker runs, and that this transaction has locked, to CANCELLED."""
    ended = {"status": Status.CANCELLED, "finished_at": Now(), "deadline_at": None, "error": None, "unredacted": None}
    _update_all(rows, [event, events.transition(Status.CANCELLED)], ended | columns)


def _update_all(rows: Sequence[Request], new_events: Sequence[Event], columns: Mapping[str, Any]) -> None:
    """Update rows that the caller has locked and checked, so that no condition is needed."""
    keys = [row.pk for row in rows]
    Request.objects.filter(pk__in=keys).update(event_seq=F("event_seq") + len(new_events), **columns)
    for row in rows:
        row.event_seq += len(new_events)
    events.insert_all((row.pk, new_events, row.event_seq) for row in rows)
    databases.on_commit(partial(wakeups.wake_all_waiting, rows))


def close(row: Request, status: Status, **columns: Any) -> bool:
    """Close a row that this transaction has locked. Return whether that was allowed."""
    unmoved = Request.objects.filter(pk=row.pk, status__in=sources(status), event_seq=row.event_seq)
    row.event_seq += 1
    columns = {"stage": row.stage, "error": None, "unredacted": None} | columns
    if not unmoved.update(status=status, finished_at=Now(), deadline_at=None, event_seq=row.event_seq, **columns):
        return False
    row.status, row.stage = status, columns["stage"]
    events.insert(row.pk, [events.transition(status, columns["error"])], row.event_seq)
    if row.cancel_requested_at is not None:
        row.refresh_from_db(fields=("cancel_requested_at", "finished_at"))
        attempts.settle(row)
    databases.on_commit(lambda: wakeups.wake_waiting(row))
    return True


def move(row: Request, status: Status, new_events: Sequence[Event], **columns: Any) -> bool:
    """Append events to a row that this transaction has locked, and change its columns and its open status.

    Returns whether the step was allowed. `status` may be the one that the row has.
    """
    stays = row.status == status
    unmoved = Request.objects.filter(
        pk=row.pk, status__in={status} if stays else sources(status), event_seq=row.event_seq, killing=False
    )
    appended = [*new_events] if stays else [*new_events, events.transition(status)]
    if not unmoved.update(status=status, event_seq=row.event_seq + len(appended), **columns):
        return False
    row.status, row.event_seq = status, row.event_seq + len(appended)
    events.insert(row.pk, appended, row.event_seq)
    databases.on_commit(lambda: wakeups.wake_waiting(row))
    return True


def record(request_id: UUID, pending: Sequence[Event], **columns: Any) -> bool:
    """Append progress and log events to a request. Return `False` if it does not run any more."""
    return record_all([Addition(request_id, pending, columns)])


def record_all(additions: Sequence[Addition]) -> bool:
    """Append progress and log events to several requests. Return `False` if none of them runs any more."""
    appended = _append(additions)
    databases.on_commit(partial(wakeups.wake_those, appended))
    return bool(appended)


def reach_stage(request_id: UUID, stage: Stage) -> bool:
    """Record that the stop of a running request has reached `stage`. Return `False` if it had before."""
    event = Event(EventKind.STAGE, {"stage": stage.name.lower()})
    return bool(_append([Addition(request_id, [event], {"stage": stage.value})]))


def give_up(request_id: UUID) -> bool:
    """Record that a running request cannot be stopped where it runs. Return `False` if it does not run any more.

    Its client gets an error, and the row stays RUNNING until the work ends.
    """
    event = Event(EventKind.STAGE, {"stage": UNSTOPPABLE})
    error = {"cause": UNSTOPPABLE, "message": "it cannot be stopped where it runs"}
    if not _append([Addition(request_id, [event], {"error": error})]):
        return False
    if (row := Request.objects.filter(pk=request_id).first()) is not None:
        wakeups.wake_waiting(row)
    return True


_append = insistent(statements.append)


@transactional
def begin_kill(request_id: UUID, *, worker: UUID) -> bool:
    """Reserve the right to kill the tool's process. The worker's main process may kill only if this returns `True`.

    From then on no other process can close the row, so that its slot cannot be given to another call before the kill.
    """
    running = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker, killing=False)
    if not running.filter(cancel_requested_at__isnull=False).update(killing=True):
        return False
    reach_stage(request_id, Stage.KILL)
    return True
