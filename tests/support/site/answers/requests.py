"""Reads a stack's requests from its rows."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from django.db.models import Count, Q
from django_celery_results.models import TaskResult

from mcp_app.lifecycle.audit import attempts, sealing
from mcp_app.models import Cancellation, Request, RequestEvent
from mcp_app.models.utc_date_time import Now
from mcp_app.states import OPEN, EventKind, Status


def _request(**which: Any) -> dict[str, Any] | None:
    row = Request.objects.filter(**which).annotate(now=Now()).order_by("-submitted_at").first()
    if row is None:
        return None
    return {
        "id": str(row.pk),
        "status": row.status,
        "stage": row.stage,
        "cancel_cause": row.cancel_cause,
        "cancel_actor": row.cancel_actor,
        "cancel_reason": row.cancel_reason,
        "killing": row.killing,
        "result": row.result,
        "partial_result": row.partial_result,
        "worker": str(row.worker) if row.worker else None,
        "worker_pid": row.worker_pid,
        "server": str(row.server) if row.server else None,
        "delivered": row.delivered_at is not None,
        "running_for": (row.now - row.claimed_at).total_seconds() if row.claimed_at else 0.0,
        "ran_for": (row.finished_at - row.claimed_at).total_seconds() if row.finished_at and row.claimed_at else None,
        "finished_at": row.finished_at.timestamp() if row.finished_at else None,
        "error": row.error,
        "unstoppable": row.unstoppable,
        "story": [event.data.get("status", event.kind) for event in row.events.all()],
        "stages": [event.data["stage"] for event in row.events.all() if event.kind == "stage"],
        "attempts": [
            {
                "cause": attempt.cause,
                "actor": attempt.actor,
                "reason": attempt.reason,
                "part_of": attempt.part_of,
                "outcome": attempt.outcome,
                "stage": attempt.stage,
                "status_before": attempt.status_before,
                "status_after": attempt.status_after,
                "latency_ms": attempt.latency_ms,
                "settled": attempt.settled_at is not None,
            }
            for attempt in attempts.list_attempts(row.pk)
        ],
    }


def _children(parent: str) -> list[dict[str, Any]]:
    return [
        {
            "id": str(row.pk),
            "status": row.status,
            "ran": row.claimed_at is not None,
            "cause": row.cancel_cause,
            "path": row.arguments["path"],
            "outcomes": [attempt.outcome for attempt in attempts.list_attempts(row.pk)],
        }
        for row in Request.objects.filter(parent=parent)
    ]


def _count_children(parent: str) -> list[int]:
    """Return the number of children, and how many of them are open."""
    found = Request.objects.filter(parent=parent)
    return [found.count(), found.filter(finished_at__isnull=True).count()]


def _lives() -> dict[str, list[Any]]:
    """Return the status, the cancellation cause and the number of claims of every request, by its JSON-RPC id."""
    claims = Count("events", filter=Q(events__kind="transition", events__data__status="running"))
    rows = Request.objects.annotate(claims=claims).values_list("jsonrpc_id", "status", "cancel_cause", "claims")
    return {str(jsonrpc_id): [status, cause, claimed] for jsonrpc_id, status, cause, claimed in rows}


def _requests() -> int:
    return Request.objects.count()


def _open_requests() -> list[str]:
    return [f"{row.tool} {row.status} {row.pk}" for row in Request.objects.filter(status__in=OPEN)]


def _begun(tool: str) -> list[float]:
    """Return the times at which workers claimed the calls of a tool."""
    begun = Request.objects.filter(tool=tool, claimed_at__isnull=False).values_list("claimed_at", flat=True)
    return sorted(claimed_at.timestamp() for claimed_at in begun)


def _events(request_id: str, kind: str) -> list[Any]:
    """Return the data of a request's events of one kind."""
    rows = RequestEvent.objects.filter(request_id=request_id, kind=kind).order_by("seq")
    return list(rows.values_list("data", flat=True))


def _attempts() -> int:
    """Return the number of audit rows."""
    return Cancellation.objects.count()


def _unsealed() -> int:
    """Return the number of audit rows that are not sealed yet."""
    return sealing.unsealed().count()


def _celery_status(task_id: str) -> str | None:
    status: str | None = TaskResult.objects.filter(task_id=task_id).values_list("status", flat=True).first()
    return status


def _ends() -> dict[str, int]:
    """Count all requests by their status, the number of their runs, and the state that Celery stores, if any."""
    begun = Counter(
        str(request_id)
        for request_id, data in RequestEvent.objects.filter(kind=EventKind.TRANSITION).values_list("request", "data")
        if data["status"] == Status.RUNNING
    )
    celerys = dict(TaskResult.objects.values_list("task_id", "status"))
    statuses = {str(pk): status for pk, status in Request.objects.values_list("pk", "status")}
    return dict(Counter(f"{status} {begun[pk]} {celerys.get(pk)}" for pk, status in statuses.items()))


ANSWERS: Final[dict[str, Callable[..., Any]]] = {
    "request": _request,
    "children": _children,
    "count children": _count_children,
    "lives": _lives,
    "requests": _requests,
    "open requests": _open_requests,
    "begun": _begun,
    "events": _events,
    "attempts": _attempts,
    "unsealed": _unsealed,
    "celery status": _celery_status,
    "ends": _ends,
}
