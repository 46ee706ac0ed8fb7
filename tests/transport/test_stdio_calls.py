"""`tools/call` over stdio: many at a time on one channel, cancelled by notification or disconnect."""

import os
from typing import Any

import pytest

from mcp_app.auth.local import ISSUER
from mcp_app.lifecycle.audit import attempts
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from tests.support.asgi_client import META, call
from tests.support.stdio_client import connect
from tests.support.worker import Worker, eventually, in_thread, row


async def test_calls_run_at_the_same_time_and_are_answered_in_the_order_in_which_they_end(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call(request_id=1))
        first = await worker.claim()
        await client.send(call(request_id="1"))
        second = await worker.claim()
        await worker.finish(second, text="second")
        answer = await client.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == ("1", "second")
        await worker.finish(first, text="first")
        answer = await client.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (1, "first")


async def test_progress_is_told_before_the_result(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call(meta={"progressToken": "p"}))
        request_id = await worker.claim()
        await worker.report(request_id, 1)
        told = await client.receive()
        assert (told["method"], told["params"]) == (
            "notifications/progress",
            {"progressToken": "p", "progress": 1},
        )
        await worker.finish(request_id)
        assert (await client.receive())["result"]["resultType"] == "complete"


async def test_log_messages_reach_a_client_that_asks_for_them(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call(meta={META + "logLevel": "warning"}))
        request_id = await worker.claim()
        await worker.log(request_id, "info", "error")
        assert (await client.receive())["params"]["level"] == "error"
        await worker.finish(request_id)
        assert "result" in await client.receive()


async def test_the_caller_is_the_user_of_this_machine(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call())
        stored = await row(await worker.receive())
        assert stored.issuer == ISSUER
        assert stored.subject.startswith(f"{os.getuid()}@")


async def test_arguments_that_http_mirrors_in_headers_need_none(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call("regional", region="north"))
        await worker.finish(await worker.claim())
        assert "result" in await client.receive()


async def test_a_cancelled_call_is_stopped_and_never_heard_of_again(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call(request_id=7, meta={"progressToken": "p"}))
        request_id = await worker.claim()
        await client.cancel(7, reason="enough")
        await eventually(Request.objects.filter(cancel_requested_at__isnull=False).exists)
        stopping = await row(request_id)
        assert (stopping.cancel_cause, stopping.cancel_reason) == (Cause.CLIENT, "enough")
        await worker.report(request_id, 1)
        await worker.finish(request_id, Status.CANCELLED)
        await client.ask("server/discover")
        await client.leave()
        [attempt] = await in_thread(attempts.list_attempts, request_id)
        assert (attempt.cause, attempt.reason) == (Cause.CLIENT, "enough")


async def test_a_queued_call_that_is_cancelled_never_runs(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call(request_id=7))
        request_id = await worker.receive()
        await client.cancel(7)
        await eventually(Request.objects.filter(status=Status.CANCELLED).exists)
        assert (await row(request_id)).cancel_cause == Cause.CLIENT


@pytest.mark.parametrize("named", ["1", 2, True, 1.0, None, [1]])
async def test_a_cancellation_of_nothing_is_ignored(worker: Worker, named: Any) -> None:
    async with connect() as client:
        await client.send(call(request_id=1))
        request_id = await worker.claim()
        await client.cancel(named)
        await client.ask("server/discover")
        await worker.finish(request_id)
        assert (await client.receive())["id"] == 1


async def test_a_client_that_closes_its_end_has_its_work_stopped(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call(request_id=1), call(request_id=2))
        running = await worker.claim()
        queued = await worker.receive()
        await client.leave()
        stopping, closed = await row(running), await row(queued)
        assert (stopping.status, stopping.cancel_cause) == (Status.RUNNING, Cause.DISCONNECT)
        assert (closed.status, closed.cancel_cause) == (Status.CANCELLED, Cause.DISCONNECT)
        await worker.finish(running, Status.CANCELLED)
