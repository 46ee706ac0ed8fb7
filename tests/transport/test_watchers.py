"""A watcher misses no event of its request, and fails if the row is gone or another watcher takes over."""

import asyncio
import threading
from collections.abc import Collection
from typing import Any
from uuid import UUID, uuid4

import pytest

from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.observation import MAX_EVENTS
from mcp_app.models import Request
from mcp_app.protocol.errors import INTERNAL_ERROR
from mcp_app.states import EventKind
from mcp_app.transport import server
from mcp_app.transport.watching import row_watcher
from tests.support import rows
from tests.support.asgi_client import PATIENCE, call, post
from tests.support.worker import Worker, eventually, in_thread


async def test_slow_reader_misses_no_event(worker: Worker, configure) -> None:
    """The rows are the buffer: until an observation is taken, nothing more is read for its watcher."""
    configure(POLL_INTERVAL=30.0)
    own = server.current()
    running = await in_thread(rows.running, worker.identity.boot_id, server=own.identity.boot_id)
    request_id = running.pk
    watcher = own.row_watcher.watch(request_id, event_seq=running.event_seq, wants_events=True, is_stored=True)
    await worker.report(request_id, 1)
    await eventually(lambda: watcher.observed)
    await worker.report(request_id, 2)
    await worker.report(request_id, 3)
    await eventually(lambda: watcher.has_more)
    seen = [data["progress"] for _, data in (await watcher.next()).events]
    while seen[-1] < 3:
        seen += [data["progress"] for _, data in (await watcher.next()).events]
    assert seen == [1, 2, 3]
    watcher.close()
    await worker.finish(request_id)


async def test_a_flood_is_told_whole_though_each_look_reads_a_part(worker: Worker, configure) -> None:
    configure(POLL_INTERVAL=30.0)
    count = 2 * MAX_EVENTS + 1
    own = server.current()
    running = await in_thread(rows.running, worker.identity.boot_id, server=own.identity.boot_id)
    watcher = own.row_watcher.watch(running.pk, event_seq=running.event_seq, wants_events=True, is_stored=True)
    said = [Event(EventKind.PROGRESS, {"progress": step}) for step in range(count)]
    await in_thread(transitions.record, running.pk, said)
    await worker.finish(running.pk)
    seen: list[float] = []
    ended = False
    async with asyncio.timeout(PATIENCE):
        while not ended:
            observed = await watcher.next()
            assert len(observed.events) <= MAX_EVENTS
            seen += [data["progress"] for _, data in observed.events]
            ended = observed.ended
    assert seen == list(range(count))
    watcher.close()


@pytest.mark.parametrize("streams", [False, True], ids=["plain JSON", "an event stream"])
async def test_a_row_that_is_gone_is_not_waited_for(worker: Worker, monkeypatch, configure, streams: bool) -> None:
    """PostgreSQL may lose the last commits in a failover."""
    monkeypatch.setattr(row_watcher, "GONE_INTERVAL", 0.0)
    configure(POLL_INTERVAL=0.05)
    client = await post(call(meta={"progressToken": "p"}))
    lost = await worker.claim()
    other = await post(call())
    kept = await worker.claim()
    if streams:
        await worker.report(lost, 1)
        await client.head()
        assert (await client.next_message())["method"] == "notifications/progress"
    await in_thread(Request.objects.filter(pk=lost).delete)
    told = await client.next_message() if streams else await client.json()
    assert told["error"]["code"] == INTERNAL_ERROR
    assert "lost this call" in told["error"]["message"]
    await worker.finish(kept)
    assert "result" in await other.json()


async def test_a_row_that_is_not_stored_yet_is_waited_for(worker: Worker, monkeypatch, configure) -> None:
    monkeypatch.setattr(row_watcher, "GONE_INTERVAL", 0.0)
    configure(POLL_INTERVAL=0.05)
    asked: list[Collection[UUID]] = []
    gone = observation.gone
    monkeypatch.setattr(observation, "gone", lambda ids: asked.append(ids) or gone(ids))
    own = server.current()
    coming = own.row_watcher.watch(uuid4(), event_seq=0, wants_events=False, is_stored=False)
    stored = own.row_watcher.watch(uuid4(), event_seq=0, wants_events=False, is_stored=True)
    with pytest.raises(row_watcher.RowGoneError):
        await stored.next()
    stored.close()
    assert asked == [[stored.request_id]]
    coming.close()


async def test_whoever_watches_a_request_next_takes_it_over(worker: Worker) -> None:
    own = server.current()
    running = await in_thread(rows.running, worker.identity.boot_id, server=own.identity.boot_id)
    first, second = (
        own.row_watcher.watch(running.pk, event_seq=1, wants_events=False, is_stored=True) for _ in range(2)
    )
    with pytest.raises(row_watcher.TakenOverError):
        await first.next()
    first.close()
    await worker.finish(running.pk)
    while not (await second.next()).ended:
        pass
    second.close()


async def test_what_was_read_for_who_watched_before_is_not_given_to_who_begins_earlier(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()
    observe = observation.observe

    def slow(watched: Any) -> Any:
        found = list(observe(watched))
        looking.set()
        assert go_on.wait(PATIENCE)
        return found

    own = server.current()
    running = await in_thread(rows.running, worker.identity.boot_id, server=own.identity.boot_id)
    for step in range(1, 4):
        await worker.report(running.pk, step)
    monkeypatch.setattr(observation, "observe", slow)
    first = own.row_watcher.watch(running.pk, event_seq=4, wants_events=True, is_stored=True)
    own.row_watcher.wake({running.pk})
    assert await in_thread(looking.wait, PATIENCE)
    second = own.row_watcher.watch(running.pk, event_seq=2, wants_events=True, is_stored=True)
    go_on.set()
    async with asyncio.timeout(PATIENCE):
        assert [data["progress"] for _, data in (await second.next()).events] == [1, 2, 3]
    first.close()
    second.close()
