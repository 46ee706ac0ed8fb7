"""The GET stream of a session. Each message is sent on exactly one connection (transports, "Multiple Connections")."""

import json
import threading
from typing import Any

import pytest

from mcp_app.catalogue import tool_rows
from mcp_app.lifecycle.sessions import session_streams, sessions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Process, Session
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.transport import shutdown
from tests.support.asgi_client import PATIENCE
from tests.support.legacy_asgi_client import Client, Event, Stream
from tests.support.worker import eventually, in_thread

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}


async def opened(client: Client, last_event: str | None = None) -> Stream:
    """Return a GET stream that listens. In 2025-11-25, its first event has been read."""
    stream = await client.get(last_event)
    assert stream.status == 200
    if client.version == "2025-11-25":
        assert (await stream.next_event()).message is None
    return stream


async def change() -> None:
    await in_thread(tool_rows.touch)


async def told(stream: Stream) -> Event:
    event = await stream.next_event()
    assert event.message == CHANGED
    assert event.id
    return event


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_a_change_of_the_tools_is_told(version: str) -> None:
    client = await Client.opened(version)
    stream = await opened(client)
    ids = []
    for _ in range(2):
        await change()
        ids.append((await told(stream)).id)
    assert len(set(ids)) == 2


async def test_the_newest_connection_has_the_stream_and_leaves_it_to_the_others() -> None:
    client = await Client.opened()
    first, second = await opened(client), await opened(client)
    await change()
    await told(second)
    await second.leave()
    await change()
    await told(first)
    await first.leave()
    assert await first.silent()


async def test_of_two_processes_one_may_tell_a_change() -> None:
    client = await Client.opened()
    stream = await opened(client)
    await change()
    await told(stream)
    session = await in_thread(Session.objects.get)
    current = {"tools": await in_thread(tool_rows.version) + 1}
    other = await in_thread(session_streams.claim_events, session.pk, session.pk, session.stream_server, current)
    assert other == []
    own = await in_thread(session_streams.claim_events, session.pk, session.stream, session.stream_server, current)
    assert [subject for subject, _ in own] == ["tools"]
    assert (
        await in_thread(session_streams.claim_events, session.pk, session.stream, session.stream_server, current) == []
    )


async def test_a_change_that_met_no_connection_is_told_to_the_next() -> None:
    client = await Client.opened()
    await change()
    await told(await opened(client))
    quiet = await opened(client)
    await change()
    await told(quiet)


async def test_what_a_connection_lost_is_told_again_and_nothing_else() -> None:
    client = await Client.opened()
    stream = await client.get()
    start = (await stream.next_event()).id
    await change()
    last = await told(stream)
    await stream.leave()
    await told(await opened(client, start))
    resumed = await opened(client, last.id)
    await change()
    assert (await told(resumed)).id not in (start, last.id)


async def test_an_event_of_the_get_stream_is_not_one_of_a_call() -> None:
    client = await Client.opened()
    refused = await client.get("listen.x")
    assert refused.status == 400
    assert json.loads(await refused.body())["error"]["code"] == -32600


async def test_the_streams_end_with_their_session() -> None:
    client = await Client.opened()
    streams = [await opened(client) for _ in range(2)]
    await client.delete()
    for stream in streams:
        assert await stream.events() == []


async def test_a_server_that_stops_says_when_to_come_back() -> None:
    client = await Client.opened()
    stream = await opened(client)
    await shutdown.drain()
    [cut] = await stream.events()
    assert (cut.message, cut.retry) == (None, "1000")
    assert (await in_thread(Session.objects.get)).stream is None


async def test_an_open_stream_keeps_its_session(configure) -> None:
    configure(KEEP_ALIVE=0.05, SESSION_IDLE_SECONDS=1.0)
    client = await Client.opened()
    stream = await opened(client)
    first = await in_thread(Session.objects.values_list("seen_at", flat=True).get)
    while await in_thread(Session.objects.filter(seen_at=first).exists):
        await stream._more()
    await in_thread(sessions.expire)
    assert await in_thread(Session.objects.exists)


async def test_the_stream_of_a_dead_process_is_free(configure) -> None:
    client = await Client.opened()
    await opened(client)
    await in_thread(rounds.supervise)
    assert (await in_thread(Session.objects.get)).stream is not None
    await in_thread(Process.objects.all().delete)
    await in_thread(rounds.supervise)
    assert (await in_thread(Session.objects.get)).stream is None


async def test_streams_are_bounded_per_principal(configure) -> None:
    configure(MAX_LISTEN_STREAMS_PER_PRINCIPAL=1)
    client = await Client.opened()
    await opened(client)
    assert (await client.get()).status == 429


async def test_a_client_that_leaves_while_its_stream_is_claimed_leaves_it_free(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released, claimed = threading.Event(), threading.Event(), threading.Event()
    claim, release = session_streams.claim, session_streams.release

    def late(*args: Any, **options: Any) -> Session | None:
        begun.set()
        released.wait(0.2)  # as if a thread were slow or a lock taken
        session = claim(*args, **options)
        claimed.set()
        return session

    def told(*args: Any) -> None:
        release(*args)
        released.set()

    monkeypatch.setattr(session_streams, "claim", late)
    monkeypatch.setattr(session_streams, "release", told)
    client = await Client.opened()
    stream = Stream("GET", headers=client._fields({"Accept": "text/event-stream"}))
    await stream.send(b"")
    await in_thread(begun.wait, PATIENCE)
    await stream.leave()
    assert await in_thread(claimed.wait, PATIENCE)
    await eventually(lambda: Session.objects.get().stream is None)


async def test_the_process_is_known_to_live_before_a_session_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    claim, known = session_streams.claim, []

    def noted(*args: Any, **options: Any) -> Session | None:
        known.append(Process.objects.exists())
        return claim(*args, **options)

    monkeypatch.setattr(session_streams, "claim", noted)
    await opened(await Client.opened())
    assert known == [True]
