"""Tasks: requests whose clients poll for the result instead of waiting. The task's handle is a column of the request.

When a request is handed over, right before its handle is sent, it stops depending on a server process. From then on it
ends by itself, by its deadline, or by a cancellation. A handle is random, known only to its client, and valid for its
principal and for `TASK_TTL`. Unknown handles, handles of others and expired ones get the same answer.
Source: ext-tasks specification/draft/tasks.
"""

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.input import task_inputs
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import Request, RequestEvent
from mcp_app.models.utc_date_time import Now
from mcp_app.protocol.tasks import Task, TaskStatus
from mcp_app.states import OPEN, TERMINAL, EventKind, Status

_NOTE = Event(EventKind.NOTE, {"message": "Handed over to its client as a task."})
_STOPPING = "The task was asked to stop and has not stopped yet."


@transactional
def submit(submission: Submission) -> Request | None:
    """Store a QUEUED row with a handle. Return `None` if its caller has too many open tasks.

    Until it is handed over, the request depends on its server process.
    """
    if not _has_room(submission.principal):
        return None
    row = transitions.submit(submission)
    Request.objects.filter(pk=row.pk, task_handle=None).update(**_handle())
    row.refresh_from_db()
    return row


@transactional
def hand_over(request_id: UUID) -> Request | None:
    """Make a request a task and return it, or `None` if it cannot become one.

    A request that has a handle can always be handed over. Others cannot if they have ended, wait for input or must
    stop, or if their caller has too many open tasks.
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
    """Return the request of a handle that belongs to `principal` and has not expired, or `None`."""
    return next(iter(find_all([task_id], principal)), None)


def find_all(task_ids: Iterable[str], principal: Principal) -> list[Request]:
    """Return the requests that `find` would return for these handles, in any order."""
    handles = [handle for handle in map(_as_handle, task_ids) if handle is not None]
    return [row for row in _unexpired().filter(task_handle__in=handles) if principal.owns(row)]


def read(request_ids: Collection[UUID]) -> dict[UUID, Task]:
    """Return the tasks of these requests, without expired ones."""
    return {row.pk: shown(row) for row in _unexpired().filter(pk__in=request_ids)}


def shown(row: Request) -> Task:
    """Return the task as its client sees it now."""
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
            stopping = observation.words(row) if row.unstoppable else _STOPPING
            is_stopping = row.cancel_requested_at is not None
            return "working", {"status_message": stopping if is_stopping else row.progress_message or None}
        case Status.INPUT_REQUIRED:
            return "input_required", {"input_requests": task_inputs.open_questions(row)}
        case Status.CANCELLED:
            return "cancelled", {"status_message": observation.words(row)}
    if (error := observation.protocol_error(row)) is not None:
        return "failed", {"error": error, "status_message": error["message"]}
    return "completed", {"result": observation.final_result(row)}


def _may_become_task(row: Request) -> bool:
    return row.status in (Status.QUEUED, Status.RUNNING) and row.cancel_requested_at is None and _has_room(row)


def _handle() -> dict[str, Any]:
    expires_at = None if settings.TASK_TTL is None else from_now(settings.TASK_TTL)
    return {"task_handle": uuid.uuid4(), "task_created_at": Now(), "task_expires_at": expires_at}


def _has_room(caller: Principal | Request) -> bool:
    tasks = Request.objects.filter(status__in=OPEN, task_handle__isnull=False)
    return capacity.has_room(caller, tasks, settings.MAX_OPEN_TASKS_PER_PRINCIPAL)


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
    """Return a handle, or `None` if the id is not written exactly as the client received it."""
    try:
        handle = UUID(task_id)
    except ValueError:
        return None
    return handle if str(handle) == task_id else None
