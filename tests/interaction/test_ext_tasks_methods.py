"""ext-tasks specification/draft/tasks, over HTTP: tasks/get, tasks/update, tasks/cancel, and how tasks end."""

import asyncio
from typing import Any

import pytest

from mcp_app.lifecycle.liveness import processes
from mcp_app.models import Cancellation, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Cause, Outcome, Status
from mcp_app.transport.calls.task_methods import UNKNOWN
from tests.interaction.tasks import (
    DECLARES_TASKS,
    METHODS,
    STRANGER,
    THREE,
    get,
    result_of,
    send,
    start,
)
from tests.support.asgi_client import call, message, post
from tests.support.worker import Worker, in_thread, row

pytestmark = pytest.mark.usefixtures("task_tools")


async def test_completed_carries_the_result_also_of_a_tool_that_failed(worker: Worker) -> None:
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


async def test_a_task_whose_worker_died_is_found_lost_by_whoever_asks(worker: Worker, configure) -> None:
    configure(SUPERVISION_INTERVAL=0.05)
    created, request = await start(worker)
    await in_thread(processes.stop, worker.identity)
    async with asyncio.timeout(30):
        while (lost := await get(created["taskId"]))["status"] == "working":
            pass
    assert lost["status"] == "completed"
    assert "was lost" in lost["result"]["content"][0]["text"]
    assert (await row(request.pk)).status == Status.LOST


async def test_a_protocol_error_is_failed_with_the_error_and_without_a_result(worker: Worker) -> None:
    error = {"cause": "protocol", "code": -32603, "message": "No more of this."}
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


async def test_a_task_is_working_until_its_stop_is_proved_and_a_finished_one_is_acknowledged(worker: Worker) -> None:
    created, request = await start(worker)
    acknowledged = await result_of("tasks/cancel", created["taskId"])
    assert acknowledged.keys() == {"resultType", "_meta"}
    stopping = await row(request.pk)
    assert (stopping.status, stopping.cancel_cause) == (Status.RUNNING, Cause.CLIENT)
    assert (await get(created["taskId"]))["status"] == "working"
    await worker.finish(request.pk, Status.CANCELLED)
    cancelled = await get(created["taskId"])
    assert cancelled["status"] == "cancelled"
    assert "by its client" in cancelled["statusMessage"]
    assert await result_of("tasks/cancel", created["taskId"]) == acknowledged
    assert await in_thread(lambda: [each.outcome for each in Cancellation.objects.order_by("pk")]) == [
        *(Outcome.ACCEPTED, Outcome.TOO_LATE),
    ]


@pytest.mark.fault("B9")
async def test_notifications_cancelled_does_not_cancel_a_task(worker: Worker) -> None:
    created, request = await start(worker)
    body = message("notifications/cancelled", meta=DECLARES_TASKS, requestId=request.jsonrpc_id)
    del body["id"]
    sent = await post(body)
    await sent.head()
    assert sent.status == 202
    assert (await row(request.pk)).cancel_requested_at is None
    assert (await get(created["taskId"]))["status"] == "working"


async def test_input_is_asked_for_and_brought_by_the_task(worker: Worker) -> None:
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


async def test_what_is_not_asked_any_more_is_passed_over_whatever_it_says(worker: Worker) -> None:
    created, request = await start(worker)
    await worker.ask(request.pk, n="How many?")
    assert await result_of("tasks/cancel", created["taskId"])
    misfit = {"n": {"action": "accept", "content": {"n": 10}}}
    assert await result_of("tasks/update", created["taskId"], inputResponses=misfit)
    assert (await get(created["taskId"]))["status"] == "cancelled"


@pytest.mark.parametrize("answer", [{"action": "accept", "content": {"n": 10}}, {"action": "maybe"}, None], ids=repr)
async def test_an_answer_that_is_none_is_refused_and_leaves_the_question(worker: Worker, answer: Any) -> None:
    created, request = await start(worker)
    await worker.ask(request.pk, n="How many?", m="And more?")
    before = await get(created["taskId"])
    refused, status = await send("tasks/update", created["taskId"], inputResponses={"m": THREE, "n": answer})
    assert (status, refused["error"]["code"]) == (200, -32602)
    assert "'n'" in refused["error"]["message"]
    assert await get(created["taskId"]) == before


@pytest.mark.fault("B5", "G5")
@pytest.mark.parametrize("method", METHODS)
async def test_unknown_foreign_and_expired_tasks_get_the_same_words(worker: Worker, method: str) -> None:
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


@pytest.mark.parametrize("method", METHODS)
async def test_the_name_header_is_the_task_id(worker: Worker, method: str) -> None:
    created, _ = await start(worker)
    body = message(method, meta=DECLARES_TASKS, taskId=created["taskId"], inputResponses={})
    for name in (STRANGER, ""):
        refused = await post(body, headers={"Mcp-Name": name})
        assert (await refused.json())["error"]["code"] == -32020
        assert refused.status == 400


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
async def test_methods_of_the_earlier_tasks_are_not_found(method: str) -> None:
    refused = await post(message(method, meta=DECLARES_TASKS, taskId=STRANGER))
    assert (await refused.json())["error"]["code"] == -32601
