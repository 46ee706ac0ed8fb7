"""WakeupListener with a socket and with the channel layer: the names it reports, and when wake-ups may be lost."""

import asyncio
from uuid import UUID, uuid4

from mcp_app.lifecycle.liveness import wakeups
from mcp_app.transport.watching import wakeup_listener
from tests.support.worker import eventually


async def test_as_many_hints_as_a_socket_holds_may_have_had_others_behind_them() -> None:
    heard: list[set[UUID] | None] = []
    own = wakeup_listener.WakeupListener(uuid4(), heard.append)
    own.open()
    for count in (wakeups.OVERFLOWS - 1, wakeups.OVERFLOWS):
        named = {uuid4() for _ in range(count)}
        for each in named:
            wakeups.wake_server(own.boot_id, [each])
        await eventually(lambda: heard)
        assert heard == ([named] if count < wakeups.OVERFLOWS else [None])
        heard.clear()
    await own.close()


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


async def test_of_a_burst_through_the_layer_some_may_be_lost(monkeypatch) -> None:
    heard: list[set[UUID] | None] = []
    monkeypatch.setattr(wakeups, "layer_crosses_processes", lambda: True)
    monkeypatch.setattr(wakeup_listener, "BURST_SECONDS", 60.0)
    layer = _Layer()
    monkeypatch.setattr(wakeup_listener, "get_channel_layer", lambda: layer)
    own = wakeup_listener.WakeupListener(uuid4(), heard.append)
    own.open()
    named = [uuid4() for _ in range(wakeup_listener.BURST)]
    for each in named:
        layer.messages.put_nowait(wakeups.layer_message(each.bytes))
    await eventually(lambda: len(heard) == wakeup_listener.BURST)
    assert heard == [*({each} for each in named[:-1]), None]
    await own.close()
