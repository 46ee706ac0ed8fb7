"""The heartbeat on a call's stream reports the worker's state to clients that request debug messages (logging)."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.db.models import F

from mcp_app.lifecycle.liveness import vital_signs
from mcp_app.models import Process
from mcp_app.states import Status
from mcp_app.transport.server import current
from tests.support.asgi_client import META, Connection, call, post
from tests.support.worker import PATIENCE, Worker, in_thread

pytestmark = pytest.mark.usefixtures("_quick")


DEBUG = {META + "logLevel": "debug"}


@pytest.fixture
def _quick(configure: Callable[..., None]) -> None:
    configure(VITAL_SIGNS_INTERVAL=0.05)


async def beat_saying(client: Connection, **expected: Any) -> dict[str, Any]:
    """Return the first heartbeat with these values. Only heartbeats may arrive before it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            message = await client.next_message()
            assert message["method"] == "notifications/message"
            assert (message["params"]["level"], message["params"]["logger"]) == ("debug", "heartbeat")
            data: dict[str, Any] = message["params"]["data"]
            if data.items() >= expected.items():
                return data


async def silence(worker: Worker, seconds: float) -> None:
    """Move the worker's last heartbeat back by `seconds`."""
    mine = Process.objects.filter(boot_id=worker.identity.boot_id)
    await in_thread(mine.update, heartbeat_at=F("heartbeat_at") - timedelta(seconds=seconds))


async def test_a_debug_call_hears_whether_its_worker_is_alive_until_it_ends(worker: Worker, configure: Any) -> None:
    configure(LOST_AFTER=60.0)
    client = await post(call(request_id="a", meta=DEBUG))
    await client.head()
    assert client.headers["content-type"] == "text/event-stream"
    queued = await beat_saying(client, requestId="a", status="queued", worker="none")
    request_id = await worker.claim()
    running = await beat_saying(client, requestId="a", status="running", worker="alive")
    assert 0 <= queued["elapsedSeconds"] <= running["elapsedSeconds"]
    await silence(worker, 40)
    await beat_saying(client, status="running", worker="silent")
    await worker.finish(request_id, Status.LOST)
    *beats, answer = await client.rest()
    assert answer["result"]["isError"] is True
    assert {beat["method"] for beat in beats} <= {"notifications/message"}


@pytest.mark.parametrize("meta", [{}, {META + "logLevel": "info"}, {"progressToken": 1}])
async def test_no_beat_for_a_client_that_did_not_ask_for_debug_messages(
    worker: Worker, configure: Any, meta: dict[str, Any]
) -> None:
    configure(SSE_AFTER=0.01, KEEP_ALIVE=0.1)
    client = await post(call(meta=meta))
    request_id = await worker.claim()
    await client.head()
    for _ in range(4):
        assert await client.event() is None
    await worker.finish(request_id)
    [answer] = await client.rest()
    assert "result" in answer


async def test_no_beat_makes_a_stream_for_a_client_that_takes_json_alone(worker: Worker) -> None:
    client = await post(call(meta=DEBUG), accept="application/json")
    request_id = await worker.claim()
    await asyncio.sleep(0.2)  # four intervals
    await worker.finish(request_id)
    assert "result" in await client.json()


async def test_beats_go_on_beside_progress(worker: Worker) -> None:
    client = await post(call(meta={**DEBUG, "progressToken": "t"}))
    request_id = await worker.claim()
    await client.head()
    methods = set()
    async with asyncio.timeout(PATIENCE):
        for step in range(1, 1000):
            await worker.report(request_id, step)
            methods.add((await client.next_message())["method"])
            if len(methods) == 2:
                break
    await worker.finish(request_id)
    assert methods == {"notifications/message", "notifications/progress"}
    assert "result" in (await client.rest())[-1]


async def test_beats_break_the_silence_in_place_of_comments(worker: Worker, configure: Any) -> None:
    configure(KEEP_ALIVE=5.0)
    client = await post(call(meta=DEBUG))
    request_id = await worker.claim()
    await client.head()
    assert await client.event() is None  # every stream begins with this comment
    for _ in range(3):
        assert (await client.event())["params"]["logger"] == "heartbeat"
    await worker.finish(request_id)
    await client.rest()


async def test_signs_that_cannot_be_read_are_a_beat_left_out(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def broken(request_ids: Any) -> Any:
        failed.set()
        raise OperationalError("the database is away")

    monkeypatch.setattr(vital_signs, "read", broken)
    client = await post(call(text="hi", meta=DEBUG))
    request_id = await worker.claim()
    assert await in_thread(failed.wait, PATIENCE)
    await worker.finish(request_id)
    assert "result" in await client.json()


async def test_one_reading_serves_every_call_whose_beat_is_due(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(VITAL_SIGNS_INTERVAL=60.0)
    readings: list[frozenset[Any]] = []
    read = vital_signs.read

    def counted(request_ids: frozenset[Any]) -> Any:
        readings.append(request_ids)
        return read(request_ids)

    monkeypatch.setattr(vital_signs, "read", counted)
    heartbeats, now = current().heartbeats, time.monotonic()
    calls = [uuid4() for _ in range(2)]
    with heartbeats.of(calls[0], since=now), heartbeats.of(calls[1], since=now):
        await asyncio.gather(*map(heartbeats.signs, calls))
        await heartbeats.signs(calls[0])
    assert readings == [frozenset(calls)]
