"""A client of the tasks extension. The tests play the worker, step by step."""

from typing import Any

from mcp_app.models import Request
from mcp_app.protocol.tasks import CAPABILITY
from tests.support.asgi_client import META, Connection, call, message, post
from tests.support.worker import Worker, row

DECLARES_TASKS = {META + "clientCapabilities": {**CAPABILITY, "elicitation": {}}}
OPTED_OUT = {META + "clientCapabilities": {"elicitation": {}}}
METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
THREE = {"action": "accept", "content": {"n": 3}}
STRANGER = "00000000-0000-4000-8000-000000000000"


async def start(worker: Worker, name: str = "job") -> tuple[dict[str, Any], Request]:
    """Start a task. Return it as it was answered, and its claimed row."""
    created = (await (await post(call(name, meta=DECLARES_TASKS))).json())["result"]
    assert created["resultType"] == "task"
    return created, await row(await worker.claim())


async def send(method: str, task_id: Any, *, meta: Any = DECLARES_TASKS, **params: Any) -> tuple[dict[str, Any], int]:
    """Return the JSON-RPC response and its HTTP status."""
    if method == "tasks/update":
        params.setdefault("inputResponses", {})
    connection = await post(message(method, meta=meta, taskId=task_id, **params))
    return await connection.json(), connection.status


async def result_of(method: str, task_id: str, **params: Any) -> dict[str, Any]:
    answer, _ = await send(method, task_id, **params)
    result: dict[str, Any] = answer["result"]
    assert result["resultType"] == "complete"
    return result


async def get(task_id: str) -> dict[str, Any]:
    return await result_of("tasks/get", task_id)


async def listen(*task_ids: str) -> tuple[Connection, dict[str, Any]]:
    """Return an open subscription and its acknowledgement."""
    client = await post(
        message("subscriptions/listen", "sub", meta=DECLARES_TASKS, notifications={"taskIds": list(task_ids)})
    )
    await client.head()
    return client, (await client.next_message())["params"]["notifications"]


async def next_notification(client: Connection) -> dict[str, Any]:
    """Return the params of the next notification. It must be about a task of this subscription."""
    notification = await client.next_message()
    assert notification["method"] == "notifications/tasks"
    assert notification["params"]["_meta"] == {META + "subscriptionId": "sub"}
    params: dict[str, Any] = notification["params"]
    return params
