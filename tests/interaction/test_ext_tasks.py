"""ext-tasks specification/draft/tasks, over HTTP: negotiation, creation, and the lifetime of a
task.
"""

import re
from datetime import datetime
from typing import Any

import pytest

from mcp_app.lifecycle import task_handles
from mcp_app.models import Request
from mcp_app.protocol.tasks import EXTENSION
from mcp_app.states import TaskMode
from mcp_app.tools import tool
from mcp_app.transport.calls import stream
from tests.interaction.tasks import DECLARES_TASKS, METHODS, OPTED_OUT, THREE, get, send, start
from tests.support.asgi_client import call, message, post, run
from tests.support.failing_database import away_at_first
from tests.support.worker import Worker, eventually, in_thread, row

pytestmark = pytest.mark.usefixtures("task_tools")


async def test_a_task_is_created_flat_and_can_be_asked_for_at_once(worker: Worker) -> None:
    created, request = await start(worker)
    assert created.keys() == {
        *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta"),
    }
    assert created["status"] == "working"
    assert created["ttlMs"] == 86_400_000
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", created["taskId"])
    assert created["taskId"] != str(request.pk)
    assert datetime.fromisoformat(created["createdAt"]) <= datetime.fromisoformat(created["lastUpdatedAt"])
    now = await get(created["taskId"])
    assert now["createdAt"] == created["createdAt"]
    assert now.keys() - {"statusMessage"} == created.keys()


@pytest.mark.parametrize("ttl", [60.0, None])
async def test_the_time_to_live_is_the_sites_and_never_absent(worker: Worker, configure, ttl: float | None) -> None:
    configure(TASK_TTL=ttl)
    created, _ = await start(worker)
    assert created["ttlMs"] == (None if ttl is None else 60_000)
    assert (await get(created["taskId"]))["ttlMs"] == created["ttlMs"]


async def test_the_extension_is_negotiated_on_each_request(worker: Worker) -> None:
    discovered = (await (await post(message("server/discover"))).json())["result"]["capabilities"]
    assert discovered["extensions"] == {EXTENSION: {}}
    assert "tasks" not in discovered
    created, _ = await start(worker)
    for method in METHODS:
        answer, status = await send(method, created["taskId"], meta=OPTED_OUT)
        assert (status, answer["error"]["code"]) == (400, -32021)
        assert answer["error"]["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    body = message("subscriptions/listen", meta=OPTED_OUT, notifications={"taskIds": [created["taskId"]]})
    refused = await post(body)
    assert (await refused.json())["error"]["code"] == -32021
    assert refused.status == 400


async def test_a_tool_that_is_always_a_task_needs_a_client_that_knows_tasks(worker: Worker) -> None:
    refused = await post(call("job", meta=OPTED_OUT))
    error = (await refused.json())["error"]
    assert (refused.status, error["code"]) == (400, -32021)
    assert error["data"]["requiredCapabilities"]["extensions"] == {EXTENSION: {}}
    assert await in_thread(Request.objects.count) == 0


@pytest.mark.parametrize(("name", "meta"), [("slow", OPTED_OUT), ("brisk", DECLARES_TASKS), ("work", DECLARES_TASKS)])
async def test_no_task_for_other_clients_quick_calls_and_other_tools(worker: Worker, name: str, meta: Any) -> None:
    body = call(name, meta=meta)
    body["params"]["task"] = {"ttl": 1}  # of an earlier revision
    client = await post(body)
    request_id = await worker.claim()
    await worker.finish(request_id)
    assert (await client.json())["result"]["resultType"] == "complete"
    assert (await row(request_id)).task_handle is None


async def test_a_slow_call_becomes_a_task_with_its_progress_as_status_message(worker: Worker) -> None:
    created, request = await start(worker, "slow")
    assert (await row(request.pk)).server is None
    await in_thread(Request.objects.filter(pk=request.pk).update, progress_message="half way")
    assert (await get(created["taskId"]))["statusMessage"] == "half way"


@pytest.mark.fault("D2")
async def test_a_call_that_cannot_become_a_task_yet_goes_on_and_becomes_one(worker: Worker, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.01)
    failures = away_at_first(monkeypatch, task_handles, "hand_over")
    created, request = await start(worker, "slow")
    assert (await get(created["taskId"]))["status"] == "working"
    assert next(failures, None) is None
    assert (await row(request.pk)).cancel_requested_at is None


async def test_a_call_that_asks_first_asks_as_any_call_and_its_retry_becomes_a_task(worker: Worker, configure) -> None:
    configure(TASK_AFTER=60.0)
    tool(name="patient", task=TaskMode.WHEN_SLOW)(lambda: "")
    client = await post(call("patient", meta=DECLARES_TASKS))
    await worker.ask(await worker.claim(), n="How many?")
    asked = (await client.json())["result"]
    assert asked["resultType"] == "input_required"
    assert "taskId" not in asked
    configure(TASK_AFTER=0.0)
    body = call("patient", "again", meta=DECLARES_TASKS)
    body["params"] |= {"inputResponses": {"n": THREE}, "requestState": asked["requestState"]}
    created = (await (await post(body)).json())["result"]
    assert created["resultType"] == "task"
    assert created.keys().isdisjoint({"requestState", "inputRequests"})
    await worker.finish(await worker.claim(), text="answered")
    assert (await get(created["taskId"]))["result"]["content"][0]["text"] == "answered"


async def test_the_end_of_the_connection_is_no_cancellation_once_there_is_a_handle(worker: Worker) -> None:
    client = await post(call("job", meta=DECLARES_TASKS), accept="text/event-stream")
    await client.head()
    created = (await client.next_message())["result"]
    await client.leave()
    request_id = await worker.claim()
    assert (await row(request_id)).cancel_requested_at is None
    await worker.finish(request_id, text="went on")
    assert (await get(created["taskId"]))["result"]["content"][0]["text"] == "went on"


async def test_one_open_task_too_many_is_refused_and_a_slow_call_is_waited_for_instead(
    worker: Worker, configure
) -> None:
    configure(MAX_OPEN_TASKS_PER_PRINCIPAL=1)
    _, first = await start(worker)
    refused = await post(call("job", meta=DECLARES_TASKS))
    assert (await refused.json())["error"]["code"] == 429
    assert refused.status == 429
    waiting = await post(call("slow", meta=DECLARES_TASKS))
    await worker.finish(await worker.claim(), text="waited for")
    assert (await waiting.json())["result"]["content"][0]["text"] == "waited for"
    await worker.finish(first.pk)
    await start(worker)


def test_a_task_outlives_the_server_process_that_made_it(worker: Worker) -> None:
    made: list[Any] = []

    async def first() -> None:
        made.extend(await start(worker))

    async def second() -> None:
        created, request = made
        assert (await get(created["taskId"]))["status"] == "working"
        await worker.finish(request.pk)
        assert (await get(created["taskId"]))["status"] == "completed"
        await eventually(lambda: Request.objects.get(pk=request.pk).delivered_at)

    run(first())
    run(second())
