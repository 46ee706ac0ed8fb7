"""Receives the wake-ups of a server process.

They come by a datagram socket, and by Channels if its layer crosses processes. A wake-up only names
requests whose rows have changed. If one is lost, a poll interval passes before the row is read.
"""

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from channels.layers import get_channel_layer

from mcp_app.lifecycle.liveness import wakeups

logger = logging.getLogger(__name__)

REJOIN_SECONDS = 3600.0
"""Layers forget group members (channels-redis after a day; any layer when one of its messages
expires unread)."""
RETRY_SECONDS = 5.0
BURST = 25
BURST_SECONDS = 0.1
"""With `BURST` wake-ups in `BURST_SECONDS`, the layer may have dropped others: it keeps 100 or
fewer."""

OnWakeup = Callable[[set[UUID] | None], object]
"""Called with the requests that a wake-up names, or `None` if any row may have changed."""


class WakeupListener:
    """Calls `on_wakeup`, on the event loop, for each wake-up of this server process."""

    def __init__(self, boot_id: UUID, on_wakeup: OnWakeup) -> None:
        self.boot_id = boot_id
        self._on_wakeup = on_wakeup
        self._socket: socket.socket | None = None
        self._layer_task: asyncio.Task[None] | None = None

    @property
    def reachable(self) -> bool:
        """Whether a wake-up can arrive at all."""
        return self._socket is not None or self._layer_task is not None

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._socket = self._listen(loop)
        if wakeups.layer_crosses_processes():
            self._layer_task = loop.create_task(self._follow_layer(), name="mcp-layer-wakeups")

    async def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        if self._layer_task is not None:
            self._layer_task.cancel()
            await asyncio.wait([self._layer_task])
            self._layer_task = None

    def _listen(self, loop: asyncio.AbstractEventLoop) -> socket.socket | None:
        try:
            listener = wakeups.listening_socket(self.boot_id.hex)
        except (OSError, AttributeError) as error:  # AttributeError: a platform without unix sockets
            logger.warning("there is no wake-up socket; rows are polled instead: %s", error)
            return None
        try:
            loop.add_reader(listener, self._drain, listener)
        except NotImplementedError:
            listener.close()
            logger.warning("this event loop cannot watch sockets; rows are polled instead")
            return None
        return listener

    def _drain(self, listener: socket.socket) -> None:
        """Read all waiting datagrams as one wake-up."""
        if (named := wakeups.receive(listener)) != set():
            self._on_wakeup(named)

    async def _follow_layer(self) -> None:
        while True:
            try:
                await self._receive_from_layer()
            except Exception as error:
                logger.warning("the channel layer cannot be reached; rows are polled until it is back: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _receive_from_layer(self) -> None:
        layer = get_channel_layer()
        name = wakeups.group(self.boot_id)
        channel = await layer.new_channel()
        received_at: deque[float] = deque(maxlen=BURST)
        try:
            while True:
                await layer.group_add(name, channel)
                with suppress(TimeoutError):
                    async with asyncio.timeout(REJOIN_SECONDS):
                        while True:
                            message = await layer.receive(channel)
                            received_at.append(time.monotonic())
                            is_burst = len(received_at) == BURST and received_at[-1] - received_at[0] < BURST_SECONDS
                            self._on_wakeup(None if is_burst else wakeups.named(wakeups.of_layer(message)))
        finally:
            with suppress(Exception):
                await layer.group_discard(name, channel)
