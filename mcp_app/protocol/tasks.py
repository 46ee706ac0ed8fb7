"""The tasks extension, `io.modelcontextprotocol/tasks`: results and params of its methods.

A client must declare the extension on each request that uses it. Legacy revisions do not have it.
Source: ext-tasks specification/draft/tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from mcp_app.protocol import results
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, RequestId, fail, missing_client_capability
from mcp_app.protocol.jsonrpc import notification
from mcp_app.protocol.metadata import SUBSCRIPTION_ID, has_capabilities
from mcp_app.protocol.requests import Route

EXTENSION: Final = "io.modelcontextprotocol/tasks"
CAPABILITY: Final[Mapping[str, Any]] = MappingProxyType({"extensions": {EXTENSION: {}}})
"""Valid as a ClientCapabilities object and as a ServerCapabilities object."""

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Task:
    """A task as `tasks/get` shows it.

    Of the last three members, only the one for its status is set.
    """

    task_id: str
    status: TaskStatus
    created_at: datetime
    last_updated_at: datetime
    ttl_ms: int | None
    """How long the task is kept after its creation. `None` means without a limit."""
    poll_interval_ms: int | None = None
    status_message: str | None = None
    input_requests: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    """A CallToolResult."""
    error: Mapping[str, Any] | None = None
    """A JSON-RPC error: code, message, maybe data."""


@dataclass(frozen=True)
class UpdateTask:
    """`tasks/update`. The values of the responses are unchecked."""

    task_id: str
    input_responses: dict[str, Any]


def create_task_result(task: Task, server_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CreateTaskResult. It is flat and never has an outcome."""
    return results.task(_task_members(task), server_info)


def detailed_task(task: Task, server_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return a DetailedTask: the result of `tasks/get`, and the params of `notifications/tasks`."""
    shown = _task_members(task)
    if task.input_requests is not None:
        shown["inputRequests"] = dict(task.input_requests)
    if task.result is not None:
        shown["result"] = results.complete(task.result, server_info)
    if task.error is not None:
        shown["error"] = dict(task.error)
    return shown


def status_notification(detailed_task: Mapping[str, Any], subscription_id: RequestId) -> dict[str, Any]:
    """Return `notifications/tasks`, for a subscription that watches the task."""
    return notification("notifications/tasks", {**detailed_task, "_meta": {SUBSCRIPTION_ID: subscription_id}})


def missing_extension(route: Route) -> Rejection | None:
    """Reject a client that did not declare the extension on this request: -32021."""
    if has_capabilities(CAPABILITY, route.metadata.client_capabilities):
        return None
    return missing_client_capability(CAPABILITY, route.request_id)


def read_task_id(route: Route) -> str | Rejection:
    """Read the params of `tasks/get` and `tasks/cancel`."""
    if (refusal := missing_extension(route)) is not None:
        return refusal
    task_id = route.params.get("taskId")
    if not isinstance(task_id, str):
        return fail(INVALID_PARAMS, "params.taskId must be the id of a task.", route.request_id)
    return task_id


def read_update_task(route: Route) -> UpdateTask | Rejection:
    task_id = read_task_id(route)
    if isinstance(task_id, Rejection):
        return task_id
    responses = route.params.get("inputResponses")
    if not isinstance(responses, dict):
        return fail(INVALID_PARAMS, "params.inputResponses must be an object of responses by key.", route.request_id)
    return UpdateTask(task_id, responses)


def read_watched_tasks(route: Route) -> tuple[str, ...] | Rejection:
    """Read the distinct `taskIds` of a `subscriptions/listen` whose filter is an object."""
    chosen = route.params["notifications"]
    if (task_ids := chosen.get("taskIds")) is None:
        return ()
    if (refusal := missing_extension(route)) is not None:
        return refusal
    if not isinstance(task_ids, list) or not all(isinstance(task_id, str) for task_id in task_ids):
        return fail(INVALID_PARAMS, "params.notifications.taskIds must be a list of task ids.", route.request_id)
    return tuple(dict.fromkeys(task_ids))


def _task_members(task: Task) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "taskId": task.task_id,
        "status": task.status,
        "createdAt": _iso_time(task.created_at),
        "lastUpdatedAt": _iso_time(task.last_updated_at),
        "ttlMs": task.ttl_ms,
    }
    if task.poll_interval_ms is not None:
        shown["pollIntervalMs"] = task.poll_interval_ms
    if task.status_message:
        shown["statusMessage"] = task.status_message
    return shown


def _iso_time(moment: datetime) -> str:
    """Return a time in ISO 8601, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
