"""A request as cells of a table and as a JSON object. Only the columns in `LISTED` are read.

Arguments and results, which may be megabytes, are not among them.
"""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from mcp_app.management.requests.request_ids import SHOWN
from mcp_app.management.terminal import one_line
from mcp_app.models import Process, Request
from mcp_app.presentation.facts import describe_status
from mcp_app.presentation.formatting import NOTHING, duration, number
from mcp_app.states import Cause, Stage

LISTED: Final = (
    "status", "tool", "parent", "issuer", "subject", "client_id", "endpoint", "principal_label", "queue",
    "submitted_at", "queued_at", "claimed_at", "finished_at", "deadline_at", "worker", "worker_pid", "progress",
    "progress_total", "progress_message", "cancel_requested_at", "cancel_cause", "cancel_actor", "cancel_reason",
    "cancel_policy", "stage", "error",
)  # fmt: skip
MESSAGE_CHARS: Final = 60
WORKER_SHOWN: Final = 8
"""The length of a boot id in a table."""
TIMES: Final = ("submitted_at", "queued_at", "claimed_at", "finished_at", "deadline_at")

Processes = dict[UUID, Process]


def short_id(row: Request) -> str:
    return str(row.pk)[:SHOWN]


def status(row: Request) -> str:
    described = describe_status(row)
    return f"{described.label} ({described.remark})" if described.remark else described.label


def caller(row: Request) -> str:
    return one_line(row.principal_label) or NOTHING


def progress(row: Request) -> str:
    if row.progress is None:
        return NOTHING
    done = number(row.progress)
    if row.progress_total is not None:
        done += f" of {number(row.progress_total)}"
    return f"{done} {one_line(row.progress_message, MESSAGE_CHARS)}".rstrip()


def took(row: Request, now: datetime) -> str:
    """Return the time from submission to the end, or until now."""
    return duration(max(0.0, ((row.finished_at or now) - row.submitted_at).total_seconds()))


def cancelled(row: Request) -> str:
    """Return the cause and stage of a cancellation, or an empty text."""
    if row.cancel_requested_at is None:
        return NOTHING
    return f"{Cause(row.cancel_cause).label}, stage {Stage(row.stage).label}"


def worker(row: Request, known: Processes) -> str:
    """Return the worker process of a request."""
    if row.worker is None:
        return NOTHING
    process = known.get(row.worker)
    return one_line(f"{process.hostname}:{process.pid}") if process else str(row.worker)[:WORKER_SHOWN]


def processes(rows: list[Request]) -> Processes:
    """Return the worker processes of these requests, if they are still known."""
    return Process.objects.in_bulk({row.worker for row in rows if row.worker is not None})


def as_json(row: Request) -> dict[str, Any]:
    """Return a JSON object. Times are in ISO 8601, and missing values are `null`."""
    cancel = None
    if row.cancel_requested_at is not None:
        cancel = {
            "requested_at": row.cancel_requested_at.isoformat(),
            "cause": row.cancel_cause,
            "actor": row.cancel_actor,
            "reason": row.cancel_reason,
            "stage": Stage(row.stage).name.lower(),
        }
    return {
        "id": str(row.pk),
        "tool": row.tool,
        "status": row.status,
        "unstoppable": row.unstoppable,
        "endpoint": row.endpoint,
        "caller": {
            "label": row.principal_label,
            "issuer": row.issuer,
            "subject": row.subject,
            "client_id": row.client_id,
        },
        "queue": row.queue,
        "parent": None if row.parent is None else str(row.parent),
        **{name: _time(getattr(row, name)) for name in TIMES},
        "worker": None if row.worker is None else str(row.worker),
        "worker_pid": row.worker_pid,
        "progress": row.progress,
        "progress_total": row.progress_total,
        "progress_message": row.progress_message,
        "cancel": cancel,
    }


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
