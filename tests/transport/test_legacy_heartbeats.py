"""A session with the log level debug gets a heartbeat on its GET stream, outside of any request."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F

from mcp_app.lifecycle.liveness import processes, vital_signs
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Process, Session
from mcp_app.transport.server import current
from tests.support.asgi_client import PATIENCE
from tests.support.legacy_asgi_client import Client, Stream, call
from tests.support.worker import Worker, in_thread
from tests.transport.test_legacy_get_stream import CHANGED, change, opened

pytestmark = pytest.mark.usefixtures("_quick")


INTERVAL = 0.05


@pytest.fixture
def _quick(configure: Callable[..., None]) -> None:
    configure(VITAL_SIGNS_INTERVAL=INTERVAL)


async def debugging(client: Client, level: str = "debug") -> None:
    assert (await client.ask("logging/setLevel", level=level))["result"] == {}


async def beat(stream: Stream) -> dict[str, Any]:
    """Return the data of the next event, which must be a heartbeat."""
    event = await stream.next_event()
    assert event.id is None, "a beat is not replayed"
    assert event.message["method"] == "notifications/message"
    params: dict[str, Any] = event.message["params"]
    assert (params["level"], params["logger"]) == ("debug", "heartbeat")
    data: dict[str, Any] = params["data"]
    return data


async def hears_nothing(stream: Stream, intervals: int = 4) -> bool:
    return bool(await stream._application.receive_nothing(timeout=intervals * INTERVAL))


async def told_of_change(stream: Stream) -> None:
    """Return the next event that is not a heartbeat."""
    async with asyncio.timeout(PATIENCE):
        while (message := (await stream.next_event()).message)["method"] == "notifications/message":
            pass
    assert message == CHANGED


async def test_a_session_that_sets_level_debug_hears_beats_while_it_is_idle(worker: Worker) -> None:
    client = await Client.opened()
    stream = await opened(client)
    assert await hears_nothing(stream)
    asked_at = time.monotonic()
    await debugging(client)
    assert [await beat(stream) for _ in range(3)] == [{"worker": "alive"}] * 3
    assert time.monotonic() - asked_at >= 3 * INTERVAL
    await debugging(client, "info")
    await change()
    await told_of_change(stream)
    assert await hears_nothing(stream)


async def test_a_stream_opened_after_the_level_was_set_hears_them_too(worker: Worker) -> None:
    client = await Client.opened("2025-03-26")
    await debugging(client)
    assert await beat(await opened(client)) == {"worker": "alive"}


async def test_each_beat_is_on_the_one_connection_that_has_the_stream(worker: Worker) -> None:
    client = await Client.opened()
    await debugging(client)
    first = await opened(client)
    await beat(first)
    second = await opened(client)
    await beat(second)
    await second.leave()
    await beat(first)
    third = await opened(client)
    await beat(third)
    # The first connection gets at most the message that was under way when the third came.
    while not await hears_nothing(first, 1):
        await first._more()
    assert await hears_nothing(first)
    await beat(third)


async def test_the_beats_end_with_the_session(worker: Worker) -> None:
    client = await Client.opened()
    await debugging(client)
    stream = await opened(client)
    await beat(stream)
    await client.delete()
    assert {event.message["method"] for event in await stream.events()} <= {"notifications/message"}


async def test_the_beats_end_with_the_workers_and_begin_again_with_one(worker: Worker) -> None:
    client = await Client.opened()
    stream = await opened(client)
    await debugging(client)
    assert await beat(stream) == {"worker": "alive"}
    await in_thread(processes.stop, worker.identity)
    while not await hears_nothing(stream, 1):
        assert await beat(stream) == {"worker": "alive"}
    assert await hears_nothing(stream)
    await in_thread(processes.beat, worker.identity)
    assert await beat(stream) == {"worker": "alive"}
    silent = Process.objects.filter(boot_id=worker.identity.boot_id)
    await in_thread(silent.update, heartbeat_at=F("heartbeat_at") - timedelta(hours=1))
    while not await hears_nothing(stream, 1):
        await stream._more()
    assert await hears_nothing(stream)


async def test_before_a_worker_was_heard_of_beats_say_that_there_is_none() -> None:
    client = await Client.opened()
    await debugging(client)
    stream = await opened(client)
    assert [await beat(stream) for _ in range(2)] == [{"worker": "none"}] * 2


async def test_rows_that_cannot_be_read_silence_the_beats_and_nothing_else(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(patients: Any) -> Any:
        raise OperationalError("the database is away")

    client = await Client.opened()
    await debugging(client)
    stream = await opened(client)
    with monkeypatch.context() as patched:
        patched.setattr(vital_signs, "read", broken)
        assert await hears_nothing(stream)
        await change()
        assert (await stream.next_event()).message == CHANGED
    await beat(stream)


async def test_changes_are_told_between_the_beats_which_keep_the_session_alive(worker: Worker, configure: Any) -> None:
    configure(KEEP_ALIVE=0.2, SESSION_IDLE_SECONDS=1.0)
    client = await Client.opened()
    await debugging(client)
    stream = await opened(client)
    first = await in_thread(Session.objects.values_list("seen_at", flat=True).get)
    async with asyncio.timeout(PATIENCE):
        while await in_thread(Session.objects.filter(seen_at=first).exists):
            await beat(stream)
    await in_thread(sessions.expire)
    assert await in_thread(Session.objects.exists)
    await change()
    await told_of_change(stream)
    await beat(stream)


async def test_a_call_of_the_session_has_its_own_beats_on_its_own_stream(worker: Worker) -> None:
    client = await Client.opened()
    await debugging(client)
    listening = await opened(client)
    calling = await client.post(call(request_id="a"))
    request_id = await worker.claim()
    await calling.head()
    await calling.next_event()
    assert (await calling.next_event()).message["params"]["data"]["requestId"] == "a"
    assert await beat(listening) == {"worker": "alive"}
    await worker.finish(request_id)
    await calling.body()


async def test_one_reading_serves_connections_and_calls(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(VITAL_SIGNS_INTERVAL=60.0)
    readings: list[frozenset[Any]] = []
    read = vital_signs.read

    def counted(patients: frozenset[Any]) -> Any:
        readings.append(patients)
        return read(patients)

    monkeypatch.setattr(vital_signs, "read", counted)
    heartbeats = current().heartbeats
    with heartbeats.of_connection() as first, heartbeats.of_connection() as second:
        for heartbeat in (first, second):
            assert heartbeat.wait > 1e6
            heartbeat.want(True)
            assert 59 < heartbeat.wait <= 60
        assert await first.take() == await second.take()
    assert readings == [frozenset({vital_signs.SITE})]
