"""Tasks: handles on requests whose clients have stopped waiting. The request stays what it was; the handle is a column.

From its hand-over on, right before its handle is sent, no server process answers for the request: only its own end, a
deadline or a cancellation by word ends it. A handle is random, known to its client alone, good for its principal and
for `TASK_TTL`; an unknown one, another's and an expired one are the same to whoever asks.
Source: ext-tasks specification/draft/tasks.
"""

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from mcp_app.auth.principal import COLUMNS, Principal, key_of
from mcp_app.conf import settings
from mcp_app.lifecycle import endings, task_inputs, transitions
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import Request, RequestEvent
from mcp_app.protocol.tasks import Task, TaskStatus
from mcp_app.states import OPEN, TERMINAL, EventKind, Status

_NOTE = Event(EventKind.NOTE, {"message": "Handed over to its client as a task."})
_STOPPING = "Its cancellation was asked for; it has not stopped yet."


@transactional
def submit(submission: Submission) -> Request | None:
    """Store a QUEUED row that has a handle from its start; None where its caller has as many open tasks as may be.

    Its server process answers for it until it is handed over.
    """
    if not _has_room(submission.principal):
        return None
    row = transitions.submit(submission)
    Request.objects.filter(pk=row.pk, task_handle=None).update(**_handle())
    row.refresh_from_db()
    return row


@transactional
def hand_over(request_id: UUID) -> Request | None:
    """The request, a task from now on; None where it cannot be one.

    One that has a handle is one, whatever became of it. Of the others those that have ended, ask their client for
    input or are to stop cannot, nor those whose caller has as many open tasks as may be.
    """
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is None or (row.task_handle is None and not _may_become_task(row)):
        return None
    if row.status in TERMINAL:
        return row
    columns = _handle() if row.task_handle is None else {}
    if not transitions.move(row, Status(row.status), [_NOTE], server=None, **columns):
        return None
    row.refresh_from_db()
    return row


def find(task_id: str, principal: Principal) -> Request | None:
    """The request behind a handle that is `principal`'s and has not expired."""
    return next(iter(find_all([task_id], principal)), None)


def find_all(task_ids: Iterable[str], principal: Principal) -> list[Request]:
    """As `find` for each, in no order; those that there are."""
    handles = [handle for handle in map(_as_handle, task_ids) if handle is not None]
    return [row for row in _unexpired().filter(task_handle__in=handles) if principal.owns(row)]


def read(request_ids: Collection[UUID]) -> dict[UUID, Task]:
    """What there is to be shown of some tasks, by their rows; the expired ones left out."""
    return {row.pk: shown(row) for row in _unexpired().filter(pk__in=request_ids)}


def shown(row: Request) -> Task:
    """The task as its client sees it now."""
    if row.task_handle is None or row.task_created_at is None:
        raise ValueError("the request was never handed over")
    status, details = _state(row)
    return Task(
        task_id=str(row.task_handle),
        status=status,
        created_at=row.task_created_at,
        last_updated_at=_last_updated_at(row) or row.task_created_at,
        ttl_ms=_milliseconds(row.task_expires_at - row.task_created_at) if row.task_expires_at else None,
        poll_interval_ms=_milliseconds(timedelta(seconds=settings.TASK_POLL_INTERVAL)) if row.status in OPEN else None,
        **details,
    )


def _state(row: Request) -> tuple[TaskStatus, dict[str, Any]]:
    match Status(row.status):
        case Status.QUEUED | Status.RUNNING:
            stopping = endings.words(row) if row.unstoppable else _STOPPING
            is_stopping = row.cancel_requested_at is not None
            return "working", {"status_message": stopping if is_stopping else row.progress_message or None}
        case Status.INPUT_REQUIRED:
            return "input_required", {"input_requests": task_inputs.outstanding(row)}
        case Status.CANCELLED:
            return "cancelled", {"status_message": endings.words(row)}
    if (error := endings.protocol_error(row)) is not None:
        return "failed", {"error": error, "status_message": error["message"]}
    return "completed", {"result": endings.final_result(row)}


def _may_become_task(row: Request) -> bool:
    return row.status in (Status.QUEUED, Status.RUNNING) and row.cancel_requested_at is None and _has_room(row)


def _handle() -> dict[str, Any]:
    expires_at = None if settings.TASK_TTL is None else from_now(settings.TASK_TTL)
    return {"task_handle": uuid.uuid4(), "task_created_at": Now(), "task_expires_at": expires_at}


def _has_room(caller: Principal | Request) -> bool:
    # Counted here: by its indexes SQLite would go through all that this caller ever sent.
    tasks = Request.objects.filter(status__in=OPEN, task_handle__isnull=False)
    open_tasks = list(tasks.values_list(*COLUMNS)).count(key_of(caller))
    return bool(open_tasks < settings.MAX_OPEN_TASKS_PER_PRINCIPAL)


def _unexpired() -> QuerySet[Request]:
    return Request.objects.filter(Q(task_expires_at__isnull=True) | Q(task_expires_at__gt=Now())).filter(
        task_handle__isnull=False
    )


def _last_updated_at(row: Request) -> datetime | None:
    newest = RequestEvent.objects.filter(request=row.pk, seq=row.event_seq)
    return newest.values_list("recorded_at", flat=True).first()


def _milliseconds(duration: timedelta) -> int:
    return max(1, round(duration.total_seconds() * 1000))


def _as_handle(task_id: str) -> UUID | None:
    """Only as it was written for the client: a handle has one spelling."""
    try:
        handle = UUID(task_id)
    except ValueError:
        return None
    return handle if str(handle) == task_id else None
