"""`subscriptions/listen`: a stream of change notifications until its client or this process ends it.

Honours `toolsListChanged`; other types belong to capabilities that are not advertised and are left out of the
acknowledgement. Refuses to send anything else on the stream. Source: 2026-07-28 basic/patterns/subscriptions.
"""

import asyncio
import time
from typing import Final

from mcp_app.catalogue.rows import SUBJECT
from mcp_app.conf import settings
from mcp_app.protocol import notifications, results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import read_listen
from mcp_app.transport.exchange import Exchange, server_info
from mcp_app.transport.tail import Listener

QUIET_SECONDS: Final = 0.05
MAX_BURST_SECONDS: Final = 0.5
"""Changes are one notification until there was quiet for that long, or the burst has lasted this long."""


class ListenStream:
    """One subscription, from its acknowledgement to its end."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._id = exchange.route.request_id
        self._listener: Listener | None = None
        self._ended = False

    def end(self) -> None:
        self._ended = True
        if self._listener is not None:
            self._listener.end()

    async def run(self, *, tools_list_changed: bool) -> None:
        if not tools_list_changed:
            await self._acknowledge({})
            await self._close()
            return
        # Registered before it is acknowledged: a change in between is told, not lost.
        self._listener = await self._exchange.server.tail.listen((SUBJECT,))
        try:
            await self._acknowledge({"toolsListChanged": True})
            while not self._ended:
                await self._tell_next_change(self._listener)
        finally:
            self._listener.close()
        await self._close()

    async def _tell_next_change(self, listener: Listener) -> None:
        """Send the next notification, or a comment when there is none for too long."""
        response = self._exchange.response
        try:
            async with asyncio.timeout(max(0.0, settings.KEEP_ALIVE - response.silent_seconds)):
                changed = await listener.next()
        except TimeoutError:
            await response.keep_alive()
            return
        if changed:
            await burst(listener)
            await response.event(notifications.tools_list_changed(self._id))

    async def _acknowledge(self, honoured: dict[str, bool]) -> None:
        await self._exchange.response.start_events()
        await self._exchange.response.event(notifications.acknowledged(self._id, honoured))

    async def _close(self) -> None:
        await self._exchange.complete(results.listen_closed(self._id, server_info()))


async def burst(listener: Listener) -> None:
    """Let a burst of changes pass: clients answer each notification by listing every tool."""
    began_at = time.monotonic()
    while not listener.ended and time.monotonic() - began_at < MAX_BURST_SECONDS:
        await asyncio.sleep(QUIET_SECONDS)
        if not listener.take():
            return


async def serve(exchange: Exchange) -> None:
    """Serve one `subscriptions/listen`."""
    chosen = read_listen(exchange.route)
    if isinstance(chosen, Rejection):
        await exchange.reject(chosen)
        return
    admission = exchange.server.admission
    refusal = admission.refuse_listener(exchange.principal, exchange.route.request_id)
    if refusal is not None:
        await exchange.reject(refusal)
        return
    stream = ListenStream(exchange)
    with admission.listeners.hold(exchange.principal, stream):
        await stream.run(tools_list_changed=chosen.tools_list_changed)
