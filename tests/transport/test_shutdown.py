"""When a server process ends, each client gets a response, and no call or thread delays the end."""

import asyncio
import signal
import threading

import pytest

from mcp_app.lifecycle.requests import observation
from mcp_app.models import Process
from mcp_app.routing import mcp_application
from mcp_app.states import Cause, Status
from mcp_app.transport import server, shutdown
from tests.support.asgi_client import Connection, call, message, post
from tests.support.worker import Worker, in_thread, row


async def test_running_call_may_end_while_the_process_drains(worker: Worker, configure) -> None:
    configure(DRAIN_SECONDS=10.0)
    client = await post(call())
    request_id = await worker.claim()
    draining = asyncio.create_task(shutdown.drain())
    await worker.finish(request_id)
    assert (await client.json())["result"]["content"][0]["text"] == "done"
    await draining


async def test_call_that_outlasts_the_drain_is_cancelled_and_told_so(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.receive()
    await shutdown.drain()
    result = (await client.json())["result"]
    assert result["isError"] is True
    assert "shutting down" in result["content"][0]["text"]
    closed = await row(request_id)
    assert (closed.status, closed.cancel_cause) == (Status.CANCELLED, Cause.SHUTDOWN)


async def test_process_that_drains_takes_no_new_calls(worker: Worker, configure) -> None:
    configure(DRAIN_SECONDS=10.0)
    running = await post(call())
    request_id = await worker.claim()
    draining = asyncio.create_task(shutdown.drain())
    await asyncio.sleep(0)
    for body in (call(), message("subscriptions/listen", notifications={"toolsListChanged": True})):
        late = await post(body)
        assert (await late.json())["error"]["code"] == 503
        assert (late.status, late.headers["retry-after"]) == (503, "1")
    await worker.finish(request_id)
    await running.json()
    await draining
    after = await post(message("tools/list"))
    assert (await after.json())["error"]["code"] == 503


@pytest.mark.fault("C13")
async def test_C13_a_body_that_is_still_on_its_way_when_the_process_stops_is_waited_for_no_longer(
    worker: Worker,
) -> None:
    half, late = Connection(), Connection()
    await half.send(b"{", more=True)
    await asyncio.sleep(0)
    await shutdown.drain()
    await late.send(b"{", more=True)
    for client in (half, late):
        assert (await client.json())["error"]["code"] == 503
        assert (client.status, client.headers["retry-after"]) == (503, "1")


async def test_stopped_process_says_so_in_its_row(worker: Worker) -> None:
    client = await post(call())
    await worker.finish(await worker.claim())
    await client.json()
    boot_id = server.current().identity.boot_id
    await shutdown.drain()
    await shutdown.drain()
    stopped = await in_thread(Process.objects.get, pk=boot_id)
    assert stopped.stopped_at is not None


@pytest.mark.fault("C13")
async def test_C13_a_thread_that_waits_for_ever_holds_up_nothing_of_the_end_but_itself(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ENDING_SECONDS", 0.2)
    answered = threading.Event()
    client = await post(call())
    await worker.finish(await worker.claim())
    await client.json()
    server.current().broker.start(answered.wait)
    try:
        await shutdown.drain()
    finally:
        answered.set()
    stopped = await in_thread(Process.objects.get, pk=server.current().identity.boot_id)
    assert stopped.stopped_at is not None


async def test_wake_ups_end_although_a_delivery_cannot_be_recorded(worker: Worker, monkeypatch) -> None:
    monkeypatch.setattr(server, "ENDING_SECONDS", 0.2)
    answered = threading.Event()
    monkeypatch.setattr(observation, "mark_delivered", lambda request_ids: answered.wait())
    client = await post(call())
    await worker.finish(await worker.claim())
    await client.json()
    listener = server.current().row_watcher._wakeup_listener
    assert listener.reachable
    try:
        await shutdown.drain()
    finally:
        answered.set()
    assert not listener.reachable


async def test_first_signal_drains_and_then_reaches_whoever_handled_it_before() -> None:
    order: list[str] = []
    handled = asyncio.Event()
    loop = asyncio.get_running_loop()

    def previous(number: int, frame: object) -> None:
        order.append("previous")
        loop.call_soon_threadsafe(handled.set)

    async def drain() -> None:
        order.append("drained")

    before = signal.signal(signal.SIGTERM, previous)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        shutdown.chain_signals(loop, drain)
        signal.raise_signal(signal.SIGTERM)
        await handled.wait()
        handled.clear()
        signal.raise_signal(signal.SIGTERM)
        await handled.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)
    assert order == ["drained", "previous", "previous"]


async def test_lifespan_is_answered() -> None:
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return next(messages)

    async def send(answer: dict[str, str]) -> None:
        sent.append(answer["type"])

    await mcp_application(None)({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
