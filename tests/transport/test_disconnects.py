"""A disconnect cancels the request, with a JSON response as with an event stream (streamable-http, Cancellation)."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import OperationalError

from mcp_app.lifecycle.audit import attempts
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.models import Request
from mcp_app.states import Cause, Outcome, Status
from mcp_app.transport.consumers import MCPConsumer
from mcp_app.transport.http.responses import EndpointResponse
from mcp_app.transport.process import cancellations
from mcp_app.transport.serving.responder import PeerGoneError
from tests.support.asgi_client import VERSION, Connection, call, message, post
from tests.support.worker import Worker, eventually, in_thread, row

JSON = "application/json"
STREAM = "text/event-stream"


@pytest.mark.fault("A1")
async def test_disconnect_before_the_body_is_complete_leaves_nothing(worker: Worker) -> None:
    client = Connection()
    await client.send(json.dumps(call()).encode()[:20], more=True)
    await client.leave()
    assert await client.silent()
    assert worker.idle()
    assert not await in_thread(Request.objects.exists)


@pytest.mark.parametrize("accept", [JSON, STREAM])
async def test_disconnect_while_queued_closes_the_row(worker: Worker, accept: str) -> None:
    client = await post(call(), accept=accept)
    request_id = await worker.receive()
    await client.leave()
    closed = await row(request_id)
    assert closed.status == Status.CANCELLED
    assert closed.cancel_cause == Cause.DISCONNECT
    assert await client.silent()
    [attempt] = await in_thread(attempts.list_attempts, request_id)
    assert (attempt.cause, attempt.actor, attempt.outcome) == (Cause.DISCONNECT, "anonymous", Outcome.ACCEPTED)
    assert attempt.actor_address == "192.0.2.1"


@pytest.mark.parametrize("accept", [JSON, STREAM])
async def test_disconnect_while_running_asks_the_work_to_stop(worker: Worker, accept: str) -> None:
    client = await post(call(), accept=accept)
    request_id = await worker.claim()
    await client.leave()
    running = await row(request_id)
    assert running.status == Status.RUNNING
    assert running.cancel_requested_at is not None
    assert running.cancel_cause == Cause.DISCONNECT
    await worker.finish(request_id, Status.CANCELLED)
    assert await client.silent()


async def test_disconnect_in_mid_stream_ends_it_without_another_word(worker: Worker) -> None:
    client = await post(call(meta={"progressToken": 1}))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await client.head()
    await client.next_message()
    await client.leave()
    await worker.report(request_id, 2)
    assert (await row(request_id)).cancel_cause == Cause.DISCONNECT
    assert await client.silent()


@pytest.mark.fault("A2")
async def test_disconnect_at_any_moment_after_the_body_leaves_no_open_row(worker: Worker) -> None:
    """The disconnect may come before, during or after the insert and the publishing. No call stays open."""
    for _ in range(20):
        client = await post(call())
        await client.leave()
        assert await client.silent()
    assert not await in_thread(Request.objects.exclude(status=Status.CANCELLED).exists)


@pytest.mark.fault("A11")
async def test_disconnect_after_the_answer_is_no_cancellation(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.claim()
    await worker.finish(request_id)
    await client.json()
    await client.leave()
    assert (await row(request_id)).cancel_requested_at is None
    assert not await in_thread(attempts.list_attempts, request_id)


@pytest.mark.fault("A10")
async def test_disconnect_between_result_and_delivery_is_audited_as_too_late(
    worker: Worker, monkeypatch, configure
) -> None:
    monkeypatch.setattr("mcp_app.lifecycle.liveness.wakeups.wake_server", lambda *told: None)
    configure(POLL_INTERVAL=30.0)
    client = await post(call())
    request_id = await worker.claim()
    await worker.finish(request_id)
    await client.leave()
    stored = await row(request_id)
    assert (stored.status, stored.delivered_at) == (Status.COMPLETED, None)
    [attempt] = await in_thread(attempts.list_attempts, request_id)
    assert attempt.outcome == Outcome.TOO_LATE
    assert await client.silent()


async def test_disconnect_of_a_listener_ends_it() -> None:
    client = await post(message("subscriptions/listen", notifications={"toolsListChanged": True}))
    await client.head()
    await client.next_message()
    await client.leave()
    assert await client.silent()


async def test_application_killed_by_its_server_cancels_its_call(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.receive()
    await client.kill()
    closed = await row(request_id)
    assert (closed.status, closed.cancel_cause) == (Status.CANCELLED, Cause.SHUTDOWN)


@pytest.mark.fault("D2")
async def test_cancellation_is_insisted_on_while_the_database_is_away(worker: Worker, monkeypatch) -> None:
    monkeypatch.setattr(cancellations, "RETRY_DELAYS", (0.01, 0.01, 0.01))
    failures = iter(range(2))
    cancel_all = cancellation.cancel_all

    def failing(asks: Sequence[CancellationRequest], **options: Any) -> list[Outcome]:
        if next(failures, None) is not None:
            raise OperationalError("the database is away")
        return cancel_all(asks, **options)

    monkeypatch.setattr(cancellation, "cancel_all", failing)
    client = await post(call())
    request_id = await worker.receive()
    await client.leave()
    assert (await row(request_id)).status == Status.CANCELLED


@pytest.mark.fault("A14")
async def test_client_that_stops_reading_is_a_client_that_left(worker: Worker, configure) -> None:
    configure(STALL_TIMEOUT=0.05)
    client = await post(call(meta={"progressToken": 1}))
    request_id = await worker.claim()
    client.stop_reading()
    await worker.report(request_id, 1)
    stopped = await eventually(lambda: Request.objects.filter(pk=request_id, cancel_cause="disconnect").first())
    assert "does not read" in stopped.cancel_reason


@pytest.mark.fault("E1")
async def test_client_that_takes_in_time_what_it_was_sent_is_there(worker: Worker, configure) -> None:
    configure(MAX_UNSENT_BYTES=1000)
    unsent = iter([1001, 1001, *[0] * 1000])
    client = await post(call(meta={"progressToken": 1}), unsent=lambda: next(unsent))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await worker.finish(request_id)
    await client.head()
    assert "result" in (await client.rest())[-1]


@pytest.mark.fault("E1")
async def test_client_with_too_much_unread_is_a_client_that_left(worker: Worker, configure) -> None:
    configure(MAX_UNSENT_BYTES=1000, STALL_TIMEOUT=0.05)
    client = await post(call(meta={"progressToken": 1}), unsent=lambda: 1001)
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    stopped = await eventually(lambda: Request.objects.filter(pk=request_id, cancel_cause="disconnect").first())
    assert "does not read" in stopped.cancel_reason
    await client.head()
    assert await client.rest() == []


@pytest.mark.parametrize(
    "how",
    [
        ConnectionResetError(),
        RuntimeError("unable to perform operation on <TCPTransport closed=True 0x1>; the handler is closed"),
    ],
    ids=["ASGI", "uvloop"],
)
def test_a_server_that_cannot_write_any_more_says_that_the_client_is_gone(how: Exception) -> None:
    async def send(part: dict[str, Any]) -> None:
        raise how

    with pytest.raises(PeerGoneError, match="has disconnected"):
        asyncio.run(EndpointResponse(send, {}).keep_alive())


def test_what_a_server_refuses_to_write_is_no_client_that_left() -> None:
    async def send(part: dict[str, Any]) -> None:
        raise RuntimeError("Expected ASGI message 'http.response.start'")

    with pytest.raises(RuntimeError, match="Expected"):
        asyncio.run(EndpointResponse(send, {}).keep_alive())


async def test_a_client_that_leaves_as_its_response_ends_disturbs_nobody() -> None:
    unheeded: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheeded.append(context))
    answered = asyncio.Event()
    body = json.dumps(message("server/discover")).encode()
    parts = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(part: dict[str, Any]) -> None:
        if part["type"] == "http.response.body" and not part.get("more_body"):
            answered.set()

    fields = {
        "host": "testserver",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": "server/discover",
    }
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    await MCPConsumer.as_asgi()(
        {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "client": ("192.0.2.1", 4711)},
        receive,
        send,
    )
    assert answered.is_set()
    assert unheeded == []
