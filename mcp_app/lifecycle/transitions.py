"""The steps of a request's life: each a compare-and-set, its event row and its wake-up.

House rules: no other module writes `Request.status`; every step names the statuses it may come from through
`states.sources`; the first terminal write wins and a terminal row never changes. A step that did not take says so by
its return value: losing a race is not an error.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle import audit, events, wakeups
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import Request
from mcp_app.states import TERMINAL, CancelPolicy, EventKind, Stage, Status, sources

_OUTCOMES = (Status.COMPLETED, Status.FAILED)
"""How a run that nobody stopped can come out: what has a result."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A `tools/call` that passed every protocol check; durations in seconds, JSON-ready values."""

    jsonrpc_id: str | int
    tool: str
    arguments: dict[str, Any]
    protocol_version: str
    principal: Principal
    cancel_policy: CancelPolicy
    cooperative_grace: float
    hard_grace: float
    time_limit: float
    queue: str
    method: str = "tools/call"
    progress_token: str | int | None = None
    log_level: str = ""
    client_info: dict[str, Any] = field(default_factory=dict)
    client_capabilities: dict[str, Any] = field(default_factory=dict)
    trace_context: dict[str, str] = field(default_factory=dict)
    remote_address: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    """To what it may ask: an unchecked InputResponses object."""
    session: UUID | None = None
    server: UUID | None = None
    id: UUID = field(default_factory=uuid.uuid4)
    """The row's, chosen before the first attempt to store it: a repeated attempt makes no second row."""


def submit(submission: Submission) -> Request:
    """Store a QUEUED row, once. It is published by `publishing.publish` once this has committed."""
    try:
        return _store(submission)
    except IntegrityError:
        # A commit whose answer was lost with its connection was repeated.
        if (row := Request.objects.filter(pk=submission.id).first()) is None:
            raise
        return row


@transactional
def _store(submission: Submission) -> Request:
    principal = submission.principal
    row = Request.objects.create(
        id=submission.id,
        jsonrpc_id=submission.jsonrpc_id,
        method=submission.method,
        tool=submission.tool,
        protocol_version=submission.protocol_version,
        arguments=submission.arguments,
        progress_token=submission.progress_token,
        log_level=submission.log_level,
        client_info=submission.client_info,
        client_capabilities=submission.client_capabilities,
        trace_context=submission.trace_context,
        **principal.columns,
        principal_label=principal.label,
        user_id=principal.user_id,
        remote_address=submission.remote_address,
        cancel_policy=submission.cancel_policy,
        cooperative_grace=submission.cooperative_grace,
        hard_grace=submission.hard_grace,
        time_limit=submission.time_limit,
        queue=submission.queue,
        answers=events.storable(submission.answers),
        session=submission.session,
        server=submission.server,
        deadline_at=from_now(settings.MAX_QUEUE_SECONDS),
    )
    events.insert(row.pk, [events.transition(Status.QUEUED)], newest=1)
    return row


@transactional
def claim(request_id: UUID, *, worker: UUID, pid: int) -> Request | None:
    """QUEUED → RUNNING for the one worker that may call the tool; None when it is not to be run (again)."""
    # Locked: its message comes once, and is not to be spent on a row that another step moves meanwhile.
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is None or row.status != Status.QUEUED:
        return None
    claimed = Request.objects.filter(pk=request_id, status=Status.QUEUED, event_seq=row.event_seq).update(
        status=Status.RUNNING,
        worker=worker,
        worker_pid=pid,
        claimed_at=Now(),
        deadline_at=from_now(row.time_limit),
        event_seq=row.event_seq + 1,
    )
    if not claimed:
        return None
    row.status, row.worker, row.worker_pid, row.event_seq = Status.RUNNING, worker, pid, row.event_seq + 1
    events.insert(request_id, [events.transition(Status.RUNNING, pid=pid)], row.event_seq)
    return row


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
) -> Status | None:
    """Close a request; the status it was given, or None when somebody else closed it, or is to.

    `worker` refuses an end from a worker that does not own the row, and only the owner may say how a run came out
    (COMPLETED, FAILED). `fenced` is the killer's: it closes only rows whose kill it began, everybody else only the
    others. CANCELLED needs an accepted cancellation; a failure after one is CANCELLED, its error kept. `stage` is how
    far the ladder went.
    """
    if status not in TERMINAL:
        raise ValueError(f"{status} is not an end")
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is None or not _may_close(row, status, worker, fenced=fenced):
        return None
    if status == Status.FAILED and row.cancel_requested_at is not None:
        status = Status.CANCELLED
    if status not in _OUTCOMES and result is not None:
        result, partial_result = None, result
    written = close(row, status, stage=max(row.stage, stage), result=result, partial_result=partial_result, error=error)
    return status if written else None


def _may_close(row: Request, status: Status, worker: UUID | None, *, fenced: bool) -> bool:
    if row.killing != fenced or (worker is not None and row.worker != worker):
        return False
    if status == Status.CANCELLED:
        return row.cancel_requested_at is not None
    return worker is not None or row.status != Status.RUNNING or status not in _OUTCOMES


def request_stop(row: Request, story: Event, **columns: Any) -> None:
    """Note in a running row that this transaction has locked that it is to stop; its status stays."""
    row.event_seq += 1
    Request.objects.filter(pk=row.pk).update(event_seq=row.event_seq, **columns)
    events.insert(row.pk, [story], row.event_seq)


def close(row: Request, status: Status, *, after: Sequence[Event] = (), **columns: Any) -> bool:
    """Write the end of a row that this transaction has locked, and what came right before it; whether it took."""
    unmoved = Request.objects.filter(pk=row.pk, status__in=sources(status), event_seq=row.event_seq)
    row.event_seq += len(after) + 1
    columns = {"stage": row.stage, "error": None} | columns
    columns["error"] = events.storable(columns["error"])
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


@transactional
def record(request_id: UUID, pending: Sequence[Event], **columns: Any) -> bool:
    """Append progress and log events to a running request; False when it is running no more."""
    open_row = Request.objects.filter(pk=request_id, status=Status.RUNNING)
    columns = {name: events.storable(value) for name, value in columns.items()}
    if not open_row.update(event_seq=F("event_seq") + len(pending), **columns):
        return False
    row = Request.objects.only("event_seq", "server").get(pk=request_id)
    events.insert(request_id, pending, row.event_seq)
    databases.on_commit(lambda: wakeups.wake_server(row.server))
    return True


@transactional
def reach_stage(request_id: UUID, stage: Stage) -> bool:
    """Note that the ladder reached `stage` for a running request; False when it was there already."""
    return _raise_stage(request_id, stage)


@transactional
def begin_kill(request_id: UUID, *, worker: UUID) -> bool:
    """Set the fence: only if this takes may the worker's main process kill the tool's process."""
    running = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker, killing=False)
    if not running.filter(cancel_requested_at__isnull=False).update(killing=True):
        return False
    _raise_stage(request_id, Stage.KILL)
    return True


def _raise_stage(request_id: UUID, stage: Stage) -> bool:
    below = Request.objects.filter(pk=request_id, status=Status.RUNNING, stage__lt=stage)
    if not below.update(stage=stage, event_seq=F("event_seq") + 1):
        return False
    newest = Request.objects.values_list("event_seq", flat=True).get(pk=request_id)
    events.insert(request_id, [Event(EventKind.STAGE, {"stage": stage.name.lower()})], newest)
    return True
