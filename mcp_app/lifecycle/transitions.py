"""The steps of a request's life: each a compare-and-set, its event row and its wake-up.

House rules: no other module writes `Request.status`; every step names the statuses it may come from through
`states.sources`; the first terminal write wins and a terminal row never changes. A step that did not take says so by
its return value: losing a race is not an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

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
from mcp_app.states import CancelPolicy, EventKind, Stage, Status, sources


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
    server: UUID | None = None


@transactional
def submit(submission: Submission) -> Request:
    """Store a QUEUED row. It is published by `publishing.publish` once this has committed."""
    principal = submission.principal
    row = Request.objects.create(
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
        issuer=principal.issuer,
        subject=principal.subject,
        client_id=principal.client_id,
        principal_label=principal.label,
        user_id=principal.user_id,
        remote_address=submission.remote_address,
        cancel_policy=submission.cancel_policy,
        cooperative_grace=submission.cooperative_grace,
        hard_grace=submission.hard_grace,
        time_limit=submission.time_limit,
        queue=submission.queue,
        server=submission.server,
        deadline_at=from_now(settings.MAX_QUEUE_SECONDS),
    )
    events.insert(row.pk, [events.transition(Status.QUEUED)], newest=1)
    return row


@transactional
def claim(request_id: UUID, *, worker: UUID, pid: int) -> Request | None:
    """QUEUED → RUNNING for the one worker that may call the tool; None when it is not to be run (again)."""
    row = Request.objects.filter(pk=request_id).first()
    if row is None or row.status != Status.QUEUED:
        return None
    row.event_seq += 1
    claimed = Request.objects.filter(pk=request_id, status=Status.QUEUED).update(
        status=Status.RUNNING,
        worker=worker,
        worker_pid=pid,
        claimed_at=Now(),
        deadline_at=from_now(row.time_limit),
        event_seq=row.event_seq,
    )
    if not claimed:
        return None
    events.insert(request_id, [events.transition(Status.RUNNING, pid=pid)], row.event_seq)
    row.status, row.worker, row.worker_pid = Status.RUNNING, worker, pid
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
    """Close a request; the status it was given, or None when somebody else closed it or is about to.

    `worker` refuses a result from a worker that does not own the row. `fenced` is the killer's: it closes only rows
    whose kill it began, everybody else only the others. `stage` is how far the ladder went. A failure after an accepted
    cancellation is CANCELLED, its error kept.
    """
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is None or row.status not in sources(status) or row.killing != fenced:
        return None
    if worker is not None and row.worker != worker:
        return None
    if status == Status.FAILED and row.cancel_requested_at is not None:
        status, partial_result, result = Status.CANCELLED, result, None
    fence = Request.objects.filter(pk=request_id, status__in=sources(status), killing=fenced, event_seq=row.event_seq)
    closed = fence.update(
        status=status,
        finished_at=Now(),
        deadline_at=None,
        event_seq=row.event_seq + 1,
        stage=max(row.stage, stage),
        result=result,
        partial_result=partial_result,
        error=error,
    )
    if not closed:
        return None
    row.refresh_from_db(fields=("finished_at", "event_seq", "stage"))
    row.status = status
    details = {"error": error} if error else {}
    events.insert(request_id, [events.transition(status, **details)], row.event_seq)
    audit.settle(row)
    databases.on_commit(lambda: wakeups.wake_server(row.server))
    return status


@transactional
def record(request_id: UUID, pending: Sequence[Event], **columns: Any) -> bool:
    """Append progress and log events to a running request; False when it is running no more."""
    open_row = Request.objects.filter(pk=request_id, status=Status.RUNNING)
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
