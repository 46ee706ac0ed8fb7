"""Hints, by a socket and by the channel layer: what they name, and when some of them may have been lost."""

import asyncio
from uuid import UUID, uuid4

from mcp_app.lifecycle import wakeups
from mcp_app.transport import hints
from tests.transport.worker import eventually


def test_as_many_hints_as_a_socket_holds_may_have_had_others_behind_them() -> None:
    heard: list[set[UUID] | None] = []
    own = hints.Hints(uuid4(), heard.append)

    async def scenario() -> None:
        own.open()
        for count in (wakeups.OVERFLOWS - 1, wakeups.OVERFLOWS):
            named = {uuid4() for _ in range(count)}
            for each in named:
                wakeups.wake_server(own.boot_id, [each])
            await eventually(lambda: heard)
            assert heard == ([named] if count < wakeups.OVERFLOWS else [None])
            heard.clear()
        await own.close()

    asyncio.run(scenario())


def test_what_comes_while_nobody_is_to_be_woken_is_heard_at_once_after_that() -> None:
    heard: list[set[UUID] | None] = []
    own = hints.Hints(uuid4(), heard.append)

    async def scenario() -> None:
        own.open()
        own.rest()
        first, second, later = (uuid4() for _ in range(3))
        for each in (first, second):
            wakeups.wake_server(own.boot_id, [each])
        for _ in range(10):
            await asyncio.sleep(0)
        assert heard == []
        own.attend()
        assert heard == [{first, second}]
        wakeups.wake_server(own.boot_id, [later])
        await eventually(lambda: len(heard) == 2)
        assert heard[1] == {later}
        own.rest()
        own.attend()
        assert len(heard) == 2, "where nothing came nobody is told"
        own.rest()
        await own.close()
        own.attend()

    asyncio.run(scenario())


class _Layer:
    """A channel layer with one channel."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    async def new_channel(self) -> str:
        return "here"

    async def group_add(self, group: str, channel: str) -> None:
        pass

    async def group_discard(self, group: str, channel: str) -> None:
        pass

    async def receive(self, channel: str) -> dict[str, str]:
        return await self.messages.get()


def test_of_a_burst_through_the_layer_some_may_be_lost(monkeypatch) -> None:
    heard: list[set[UUID] | None] = []
    monkeypatch.setattr(wakeups, "layer_crosses_processes", lambda: True)
    monkeypatch.setattr(hints, "BURST_SECONDS", 60.0)

    async def scenario() -> None:
        layer = _Layer()
        monkeypatch.setattr(hints, "get_channel_layer", lambda: layer)
        own = hints.Hints(uuid4(), heard.append)
        own.open()
        named = [uuid4() for _ in range(hints.BURST)]
        for each in named:
            layer.messages.put_nowait(wakeups.layer_message(each.bytes))
        await eventually(lambda: len(heard) == hints.BURST)
        assert heard == [*({each} for each in named[:-1]), None]
        await own.close()

    asyncio.run(scenario())
