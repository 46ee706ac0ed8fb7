"""The two steps that every run takes, its claim and its end, as `statements` of one each.

Refuses an end that is out of the ordinary, of a run that is to stop or was left by its worker, and one of which
redaction leaves anything out: such a one is `transitions.finish`'s.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db.models import Model

from mcp_app.lifecycle import celery_results, columns, events, statements
from mcp_app.lifecycle.celery_results import StoredResult
from mcp_app.lifecycle.statements import Dialect, Step
from mcp_app.models import Request
from mcp_app.states import Status, sources

_OF_A_RUN = columns.Rows(Request, frozenset({
    "id", "method", "tool", "protocol_version", "arguments", "originals", "client_info", "client_capabilities",
    "trace_context", "language", "issuer", "subject", "client_id", "endpoint", "principal_label", "user_id", "scopes",
    "remote_address", "status", "queued_at", "claimed_at", "input_round", "answers", "visited", "kept", "task_handle",
    "cancel_policy", "cooperative_grace", "hard_grace", "time_limit", "caller_limit", "parent", "depth", "server",
    "worker", "worker_pid", "killing", "event_seq",
}))  # fmt: skip
"""What a run needs of its row: half of it."""

_STARTER_GOES_ON = """EXISTS (
    SELECT 1 FROM {requests} AS starter
    WHERE starter.id = {requests}.parent AND starter.status = {status} AND starter.cancel_requested_at IS NULL
)"""


def claim(request_id: UUID, worker: UUID, pid: int) -> Request | None:
    """What a run needs of the claimed row, the rest deferred; None where it is not to be run."""
    told = [events.transition(Status.RUNNING, pid=pid)]
    values = {"id": request_id, "worker": worker, "worker_pid": pid, "status": Status.RUNNING}
    return statements.taken(_CLAIM, told, values, _OF_A_RUN)


def end(
    row: Request,
    status: Status,
    *,
    result: dict[str, Any] | None,
    error: dict[str, Any] | None,
    celery_result: StoredResult | None,
) -> bool:
    """Write how the run of a claimed row came out, and beside it Celery's own result; whether it was ordinary."""
    values = {
        "id": row.pk,
        "worker": row.worker,
        "server": row.server,
        "task_handle": row.task_handle,
        "status": status,
        "result": result,
        "error": error,
    }
    told = [events.transition(status, **({"error": error} if error else {}))]
    step = _end(beside=celery_result is not None)
    return statements.take(step, told, values, None if celery_result is None else celery_result.values)


def _may_be_claimed(dialect: Dialect) -> str:
    in_time = f"({{requests}}.deadline_at IS NULL OR {{requests}}.deadline_at > {dialect.now})"
    return f"{_from(Status.RUNNING)} AND {in_time} AND ({{requests}}.parent IS NULL OR {_STARTER_GOES_ON})"


def _claimed(dialect: Dialect) -> Mapping[str, str]:
    left = f"{{requests}}.caller_limit - {dialect.ago.format('{requests}.queued_at')}"
    limit = f"{dialect.least}({{requests}}.time_limit, COALESCE({left}, {{requests}}.time_limit))"
    return {
        "status": "{status}",
        "worker": "{worker}",
        "worker_pid": "{worker_pid}",
        "claimed_at": dialect.now,
        "deadline_at": dialect.later.format(limit),
    }


_CLAIM = Step("mcp_claim", _may_be_claimed, _claimed, ("worker", "worker_pid", "status"), tells_one=True)


@cache
def _end(*, beside: bool) -> Step:
    name, results = "mcp_end", None
    if beside:
        name = "mcp_end_with_result"
        model: type[Model] = apps.get_model("django_celery_results", "TaskResult")
        results = celery_results.beside(model)
    parameters = ("worker", "server", "task_handle", "status", "result", "error")
    return Step(name, _is_ordinary, _ended, parameters, results, tells_one=True)


def _is_ordinary(dialect: Dialect) -> str:
    """It runs where it was claimed, nobody asked it to stop, and who waits for it is who did at its claim."""
    untouched = ("cancel_requested_at", "error", "originals")
    return " AND ".join(
        (
            _from(Status.COMPLETED),
            "{requests}.worker = {worker} AND NOT {requests}.killing",
            *(f"{{requests}}.{column} IS NULL" for column in untouched),
            *(f"{{requests}}.{column} {dialect.same} {{{column}}}" for column in ("server", "task_handle")),
        )
    )


def _ended(dialect: Dialect) -> Mapping[str, str]:
    values = {"status": "{status}", "result": "{result}", "error": "{error}"}
    return {**values, "finished_at": dialect.now, "deadline_at": "NULL"}


def _from(target: Status) -> str:
    return f"{{requests}}.status IN ({', '.join(repr(status.value) for status in sorted(sources(target)))})"
