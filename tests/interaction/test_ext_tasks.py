"""ext-tasks specification/draft/tasks, over HTTP. The worker's part is played by the tests, step by step."""

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db.models.functions import Now

from mcp_app.lifecycle import cancellation, processes
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.models import Cancellation, Request
from mcp_app.protocol.tasks import CAPABILITY, EXTENSION
from mcp_app.states import Cause, Outcome, Status, TaskMode
from mcp_app.tools import tool
from mcp_app.transport.task_methods import UNKNOWN
from tests.transport.client import META, Connection, call, message, post, run
from tests.transport.worker import Worker, eventually, in_thread, row

KNOWS = {META + "clientCapabilities": {**CAPABILITY, "elicitation": {}}}
OPTED_OUT = {META + "clientCapabilities": {"elicitation": {}}}
METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
THREE = {"action": "accept", "content": {"n": 3}}
STRANGER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def _tools(_empty: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0, LOST_AFTER=60.0)

    @tool(task=TaskMode.ALWAYS)
    def job() -> str:
        """Work as a task."""
        return ""

    @tool(task=TaskMode.WHEN_SLOW, task_after=0.0)
    def slow() -> str:
        """Work as a task where the client knows tasks."""
        return ""

    @tool(task=TaskMode.WHEN_SLOW, task_after=60.0)
    def brisk() -> str:
        """Work, seldom for a minute."""
        return ""

    @tool
    def work() -> str:
        """Never work as a task."""
        return ""


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker.at_work() as worker:
        yield worker


async def start(worker: Worker, name: str = "job") -> tuple[dict[str, Any], Request]:
    """A new task, as it was answered, and its row, claimed."""
    created = (await (await post(call(name, meta=KNOWS))).json())["result"]
    assert created["resultType"] == "task"
    return created, await row(await worker.claim())


async def send(method: str, task_id: Any, *, meta: Any = KNOWS, **params: Any) -> tuple[dict[str, Any], int]:
    """The JSON-RPC response and its HTTP status."""
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
    """An open subscription, and what was acknowledged."""
    client = await post(message("subscriptions/listen", "sub", meta=KNOWS, notifications={"taskIds": list(task_ids)}))
    await client.head()
    return client, (await client.next_message())["params"]["notifications"]


async def told(client: Connection) -> dict[str, Any]:
    """The params of the next notification, which is of a task of this subscription."""
    notification = await client.next_message()
    assert notification["method"] == "notifications/tasks"
    assert notification["params"]["_meta"] == {META + "subscriptionId": "sub"}
    params: dict[str, Any] = notification["params"]
    return params


def test_a_task_is_created_flat_and_can_be_asked_for_at_once(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


@pytest.mark.parametrize("ttl", [60.0, None])
def test_the_time_to_live_is_the_sites_and_never_absent(worker: Worker, configure, ttl: float | None) -> None:
    configure(TASK_TTL=ttl)

    async def scenario() -> None:
        created, _ = await start(worker)
        assert created["ttlMs"] == (None if ttl is None else 60_000)
        assert (await get(created["taskId"]))["ttlMs"] == created["ttlMs"]

    run(scenario())


def test_the_extension_is_negotiated_on_each_request(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_tool_that_is_always_a_task_needs_a_client_that_knows_tasks(worker: Worker) -> None:
    async def scenario() -> None:
        refused = await post(call("job", meta=OPTED_OUT))
        error = (await refused.json())["error"]
        assert (refused.status, error["code"]) == (400, -32021)
        assert error["data"]["requiredCapabilities"]["extensions"] == {EXTENSION: {}}
        assert await in_thread(Request.objects.count) == 0

    run(scenario())


@pytest.mark.parametrize(("name", "meta"), [("slow", OPTED_OUT), ("brisk", KNOWS), ("work", KNOWS)])
def test_no_task_for_other_clients_quick_calls_and_other_tools(worker: Worker, name: str, meta: Any) -> None:
    async def scenario() -> None:
        body = call(name, meta=meta)
        body["params"]["task"] = {"ttl": 1}  # of an earlier revision
        client = await post(body)
        request_id = await worker.claim()
        await worker.finish(request_id)
        assert (await client.json())["result"]["resultType"] == "complete"
        assert (await row(request_id)).task_handle is None

    run(scenario())


def test_a_slow_call_becomes_a_task_with_its_progress_as_status_message(worker: Worker) -> None:
    async def scenario() -> None:
        created, request = await start(worker, "slow")
        assert (await row(request.pk)).server is None
        await in_thread(Request.objects.filter(pk=request.pk).update, progress_message="half way")
        assert (await get(created["taskId"]))["statusMessage"] == "half way"

    run(scenario())


def test_a_call_that_asks_first_asks_as_any_call_and_its_retry_becomes_a_task(worker: Worker, configure) -> None:
    configure(TASK_AFTER=60.0)

    async def scenario() -> None:
        tool(name="patient", task=TaskMode.WHEN_SLOW)(lambda: "")
        client = await post(call("patient", meta=KNOWS))
        await worker.ask(await worker.claim(), n="How many?")
        asked = (await client.json())["result"]
        assert asked["resultType"] == "input_required"
        assert "taskId" not in asked
        configure(TASK_AFTER=0.0)
        body = call("patient", "again", meta=KNOWS)
        body["params"] |= {"inputResponses": {"n": THREE}, "requestState": asked["requestState"]}
        created = (await (await post(body)).json())["result"]
        assert created["resultType"] == "task"
        assert created.keys().isdisjoint({"requestState", "inputRequests"})
        await worker.finish(await worker.claim(), text="answered")
        assert (await get(created["taskId"]))["result"]["content"][0]["text"] == "answered"

    run(scenario())


def test_the_end_of_the_connection_is_no_cancellation_once_there_is_a_handle(worker: Worker) -> None:
    async def scenario() -> None:
        client = await post(call("job", meta=KNOWS), accept="text/event-stream")
        await client.head()
        created = (await client.next_message())["result"]
        await client.leave()
        request_id = await worker.claim()
        assert (await row(request_id)).cancel_requested_at is None
        await worker.finish(request_id, text="went on")
        assert (await get(created["taskId"]))["result"]["content"][0]["text"] == "went on"

    run(scenario())


def test_completed_carries_the_result_also_of_a_tool_that_failed(worker: Worker) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        await worker.finish(request.pk, text="the result")
        done = await get(created["taskId"])
        assert (done["status"], done["result"]["resultType"]) == ("completed", "complete")
        assert done["result"]["content"] == [{"type": "text", "text": "the result"}]
        created, request = await start(worker)
        await worker.finish(request.pk, Status.FAILED)
        failed = await get(created["taskId"])
        assert (failed["status"], failed["result"]["isError"]) == ("completed", True)
        created, request = await start(worker)
        await worker.finish(request.pk, Status.LOST)
        lost = await get(created["taskId"])
        assert lost["status"] == "completed"
        assert "was lost" in lost["result"]["content"][0]["text"]
        assert "error" not in lost

    run(scenario())


def test_a_task_whose_worker_died_is_found_lost_by_whoever_asks(worker: Worker, configure) -> None:
    configure(SUPERVISION_INTERVAL=0.05)

    async def scenario() -> None:
        created, request = await start(worker)
        await in_thread(processes.stop, worker.identity)
        async with asyncio.timeout(30):
            while (lost := await get(created["taskId"]))["status"] == "working":
                pass
        assert lost["status"] == "completed"
        assert "was lost" in lost["result"]["content"][0]["text"]
        assert (await row(request.pk)).status == Status.LOST

    run(scenario())


def test_a_protocol_error_is_failed_with_the_error_and_without_a_result(worker: Worker) -> None:
    error = {"cause": "protocol", "code": -32603, "message": "No more of this."}

    async def scenario() -> None:
        created, request = await start(worker)
        assert await worker.fail(request.pk, error)
        failed = await get(created["taskId"])
        assert (failed["status"], failed["statusMessage"]) == ("failed", "No more of this.")
        assert failed["error"] == {"code": -32603, "message": "No more of this."}
        assert "result" not in failed
        client = await post(call("work"))
        assert await worker.fail(await worker.claim(), error)
        assert (await client.json())["error"] == failed["error"]
        assert client.status == 200

    run(scenario())


def test_a_protocol_error_ends_a_stream_that_was_begun(worker: Worker) -> None:
    async def scenario() -> None:
        client = await post(call("work", meta={"progressToken": 0}))
        request_id = await worker.claim()
        await worker.report(request_id, 1)
        await client.head()
        assert (await client.next_message())["method"] == "notifications/progress"
        await worker.fail(request_id, {"cause": "protocol", "code": -32603, "message": "No more of this."})
        [final] = await client.rest()
        assert final["error"] == {"code": -32603, "message": "No more of this."}

    run(scenario())


def test_a_task_is_working_until_its_stop_is_proved_and_a_finished_one_is_acknowledged(worker: Worker) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        acknowledged = await result_of("tasks/cancel", created["taskId"])
        assert acknowledged.keys() == {"resultType", "_meta"}
        stopping = await row(request.pk)
        assert (stopping.status, stopping.cancel_cause) == (Status.RUNNING, Cause.CLIENT)
        assert (await get(created["taskId"]))["status"] == "working"
        await worker.finish(request.pk, Status.CANCELLED)
        cancelled = await get(created["taskId"])
        assert (cancelled["status"], cancelled["statusMessage"]) == (
            *("cancelled", "The call was cancelled by its client."),
        )
        assert await result_of("tasks/cancel", created["taskId"]) == acknowledged
        assert await in_thread(lambda: [each.outcome for each in Cancellation.objects.order_by("pk")]) == [
            *(Outcome.ACCEPTED, Outcome.TOO_LATE),
        ]

    run(scenario())


def test_notifications_cancelled_does_not_cancel_a_task(worker: Worker) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        body = message("notifications/cancelled", meta=KNOWS, requestId=request.jsonrpc_id)
        del body["id"]
        sent = await post(body)
        await sent.head()
        assert sent.status == 202
        assert (await row(request.pk)).cancel_requested_at is None
        assert (await get(created["taskId"]))["status"] == "working"

    run(scenario())


def test_input_is_asked_for_and_brought_by_the_task(worker: Worker) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        await worker.ask(request.pk, n="How many?", m="And more?")
        asking = await get(created["taskId"])
        assert asking["status"] == "input_required"
        assert asking["inputRequests"].keys() == {"n", "m"}
        assert "requestState" not in asking
        responses = {"n": THREE, "unknown": {"action": "accept"}}
        acknowledged = await result_of("tasks/update", created["taskId"], inputResponses=responses)
        assert acknowledged.keys() == {"resultType", "_meta"}
        assert (await get(created["taskId"]))["inputRequests"].keys() == {"m"}
        answered_again = {"n": {"action": "decline"}}
        assert await result_of("tasks/update", created["taskId"], inputResponses=answered_again)
        assert worker.idle()
        assert await result_of("tasks/update", created["taskId"], inputResponses={"m": {"action": "decline"}})
        assert await worker.claim() == request.pk
        assert (await row(request.pk)).answers == {"n": THREE, "m": {"action": "decline"}}
        assert (await get(created["taskId"]))["status"] == "working"
        await worker.finish(request.pk)
        assert await result_of("tasks/update", created["taskId"], inputResponses={"m": THREE})

    run(scenario())


@pytest.mark.parametrize("answer", [{"action": "accept", "content": {"n": 10}}, {"action": "maybe"}, None], ids=repr)
def test_an_answer_that_is_none_is_refused_and_leaves_the_question(worker: Worker, answer: Any) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        await worker.ask(request.pk, n="How many?", m="And more?")
        before = await get(created["taskId"])
        refused, status = await send("tasks/update", created["taskId"], inputResponses={"m": THREE, "n": answer})
        assert (status, refused["error"]["code"]) == (200, -32602)
        assert "'n'" in refused["error"]["message"]
        assert await get(created["taskId"]) == before

    run(scenario())


@pytest.mark.parametrize("method", METHODS)
def test_unknown_foreign_and_expired_tasks_get_the_same_words(worker: Worker, method: str) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        expired, past = await start(worker)
        await in_thread(Request.objects.filter(pk=past.pk).update, task_expires_at=Now())
        before = await in_thread(Request.objects.filter(pk=request.pk).values().get)
        for task_id in (STRANGER, "no id", str(request.pk), created["taskId"].upper(), expired["taskId"]):
            answer, status = await send(method, task_id)
            assert (status, answer["error"]) == (200, {"code": -32602, "message": UNKNOWN})
        await in_thread(Request.objects.filter(pk=request.pk).update, subject="somebody else")
        answer, _ = await send(method, created["taskId"])
        assert answer["error"] == {"code": -32602, "message": UNKNOWN}
        assert await in_thread(Request.objects.filter(pk=request.pk).values().get) == {
            **before,
            "subject": "somebody else",
        }
        assert await in_thread(Request.objects.filter(pk=past.pk).exists)

    run(scenario())


@pytest.mark.parametrize("method", METHODS)
def test_the_name_header_is_the_task_id(worker: Worker, method: str) -> None:
    async def scenario() -> None:
        created, _ = await start(worker)
        body = message(method, meta=KNOWS, taskId=created["taskId"], inputResponses={})
        for name in (STRANGER, ""):
            refused = await post(body, headers={"Mcp-Name": name})
            assert (await refused.json())["error"]["code"] == -32020
            assert refused.status == 400

    run(scenario())


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
def test_methods_of_the_earlier_tasks_are_not_found(method: str) -> None:
    async def scenario() -> None:
        refused = await post(message(method, meta=KNOWS, taskId=STRANGER))
        assert (await refused.json())["error"]["code"] == -32601

    run(scenario())


def test_a_subscription_tells_the_whole_task_as_it_is_and_then_each_change(worker: Worker) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        client, honoured = await listen(STRANGER, created["taskId"], created["taskId"])
        assert honoured == {"taskIds": [created["taskId"]]}
        assert (await told(client))["status"] == "working"
        await worker.report(request.pk, 1, message="one")
        await worker.ask(request.pk, n="How many?")
        while (asking := await told(client))["status"] == "working":
            pass
        assert asking["inputRequests"].keys() == {"n"}
        await result_of("tasks/update", created["taskId"], inputResponses={"n": THREE})
        assert (await told(client))["status"] == "working"
        await worker.claim()
        await worker.finish(request.pk, text="told")
        done = await told(client)
        shown = await get(created["taskId"])
        assert {**done, "_meta": None, "resultType": "complete"} == {**shown, "_meta": None}
        await client.leave()

    run(scenario())


def test_a_subscription_to_a_finished_task_tells_its_outcome(worker: Worker) -> None:
    async def scenario() -> None:
        created, request = await start(worker)
        await in_thread(cancellation.cancel, request.pk, cause=Cause.ADMIN, actor=SYSTEM, reason="no longer needed")
        await worker.finish(request.pk, Status.CANCELLED)
        client, _ = await listen(created["taskId"])
        cancelled = await told(client)
        assert cancelled["status"] == "cancelled"
        assert cancelled["statusMessage"].endswith("Reason: no longer needed")
        await client.leave()

    run(scenario())


def test_a_subscription_to_no_task_of_ones_own_ends_at_once(worker: Worker) -> None:
    async def scenario() -> None:
        client, honoured = await listen(STRANGER)
        assert honoured == {}
        [final] = await client.rest()
        assert final["result"]["resultType"] == "complete"

    run(scenario())


def test_one_open_task_too_many_is_refused_and_a_slow_call_is_waited_for_instead(worker: Worker, configure) -> None:
    configure(MAX_OPEN_TASKS_PER_PRINCIPAL=1)

    async def scenario() -> None:
        _, first = await start(worker)
        refused = await post(call("job", meta=KNOWS))
        assert (await refused.json())["error"]["code"] == 429
        assert refused.status == 429
        waiting = await post(call("slow", meta=KNOWS))
        await worker.finish(await worker.claim(), text="waited for")
        assert (await waiting.json())["result"]["content"][0]["text"] == "waited for"
        await worker.finish(first.pk)
        await start(worker)

    run(scenario())


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
