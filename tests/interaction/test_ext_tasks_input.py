"""ext-tasks specification/draft/tasks "Task Update Requests": keys, and tasks that have ended."""

from typing import Any

import pytest

from mcp_app.models import Request
from mcp_app.protocol.tasks import CAPABILITY
from mcp_app.states import Status, TaskMode
from mcp_app.tools import tool
from tests.support.asgi_client import META, call, message, post
from tests.support.worker import Worker, in_thread, row

pytestmark = pytest.mark.usefixtures("_tools")


KNOWS = {META + "clientCapabilities": {**CAPABILITY, "elicitation": {}}}
THREE = {"action": "accept", "content": {"n": 3}}
FOUR = {"action": "accept", "content": {"n": 4}}


@pytest.fixture
def _tools(_empty: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0)

    @tool(task=TaskMode.ALWAYS)
    def job() -> str:
        """Work as a task."""
        return ""


async def start(worker: Worker) -> tuple[str, Request]:
    created = (await (await post(call("job", meta=KNOWS))).json())["result"]
    return created["taskId"], await row(await worker.claim())


async def send(method: str, task_id: str, **params: Any) -> Any:
    result = (await (await post(message(method, meta=KNOWS, taskId=task_id, **params))).json())["result"]
    assert result["resultType"] == "complete"
    return result


async def asked(task_id: str) -> list[str]:
    """Return the keys of the task's open questions."""
    return list((await send("tasks/get", task_id)).get("inputRequests", ()))


async def test_a_key_is_used_for_one_question_in_the_life_of_a_task(worker: Worker) -> None:
    task_id, request = await start(worker)
    keys: list[str] = []
    for answer in (THREE, FOUR, THREE):
        assert await worker.ask(request.pk, n="How many?") == Status.INPUT_REQUIRED
        [key] = await asked(task_id)
        assert key not in keys
        for late in keys:
            await send("tasks/update", task_id, inputResponses={late: FOUR})
        assert await asked(task_id) == [key]
        await send("tasks/update", task_id, inputResponses={key: answer})
        await worker.claim()
        assert (await row(request.pk)).answers == {"n": answer}
        keys.append(key)
    await worker.finish(request.pk)
    assert await asked(task_id) == []


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.LOST])
async def test_what_has_ended_stays_as_it_ended(worker: Worker, status: Status) -> None:
    task_id, request = await start(worker)
    if status == Status.CANCELLED:
        await send("tasks/cancel", task_id)
    assert await worker.finish(request.pk, status) == status
    ended = await send("tasks/get", task_id)
    assert ended["status"] == ("cancelled" if status == Status.CANCELLED else "completed")
    assert "pollIntervalMs" not in ended
    await send("tasks/update", task_id, inputResponses={"n": THREE})
    await send("tasks/cancel", task_id)
    assert await worker.ask(request.pk, n="How many?") is None
    assert await worker.finish(request.pk) is None
    assert await send("tasks/get", task_id) == ended
    assert await in_thread(worker.idle)
