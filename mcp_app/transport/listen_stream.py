"""`subscriptions/listen`: a stream of change notifications until its client or this process ends it.

Refuses to send on the stream what was not asked for and acknowledged. Source: 2026-07-28 basic/patterns/subscriptions.
"""

import asyncio
import time
from collections.abc import Collection
from typing import Final

from mcp_app.conf import settings
from mcp_app.lifecycle import listen_streams
from mcp_app.lifecycle.observation import Subject
from mcp_app.models import ListenStream as ListenStreamRow
from mcp_app.protocol import notifications, results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import read_listen
from mcp_app.transport.callers import ASK_AGAIN_SECONDS, Standing
from mcp_app.transport.concerned import concerned
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.honoured import Honoured, honour
from mcp_app.transport.tail import Listener

QUIET_SECONDS: Final = 0.05
MAX_BURST_SECONDS: Final = 0.5
"""Changes are one notification until there was quiet for that long, or the burst has lasted this long."""


class ListenStream:
    """One subscription, from its acknowledgement to its end."""

    def __init__(self, exchange: Exchange, honoured: Honoured) -> None:
        self._exchange = exchange
        self._honoured = honoured
        self._id = exchange.route.request_id
        self._listener: Listener | None = None
        self._untold: set[Subject] = set()
        """What changed since it was last known that the client may still be told."""
        self._ended = False

    def end(self) -> None:
        self._ended = True
        if self._listener is not None:
            self._listener.end()

    async def run(self) -> None:
        subjects: tuple[Subject, ...] = (*self._honoured.notifications, *self._honoured.tasks.subjects)
        if not subjects:
            await self._acknowledge()
            await self._close()
            return
        # Registered before it is acknowledged: a change in between is told, not lost.
        self._listener = await self._exchange.server.tail.listen(subjects)
        try:
            await self._acknowledge()
            with self._exchange.server.open_streams.known(self._row(), self):
                await self._tell_tasks(self._honoured.tasks.subjects)
                while not self._ended:
                    await self._tell_next_changes(self._listener)
        finally:
            self._listener.close()
        await self._close()

    async def _tell_next_changes(self, listener: Listener) -> None:
        """Send the next notifications, or a comment when there are none for too long."""
        await self._await_changes(listener)
        if not await self._may_tell():
            return
        changed, self._untold = self._untold, set()
        await self._tell_changes(changed & self._honoured.notifications.keys())
        await self._tell_tasks(changed)

    async def _await_changes(self, listener: Listener) -> None:
        quiet = max(0.0, settings.KEEP_ALIVE - self._exchange.response.silent_seconds)
        until_asked = ASK_AGAIN_SECONDS if self._untold else self._exchange.caller.seconds_until_due
        try:
            async with asyncio.timeout(min(quiet, until_asked)):
                changed = await listener.next()
        except TimeoutError:
            if self._exchange.response.silent_seconds >= settings.KEEP_ALIVE:
                await self._exchange.response.keep_alive()
            return
        self._untold |= changed
        if changed:
            self._untold |= await burst(listener)

    async def _may_tell(self) -> bool:
        """Whether the client is still who it was: asked before anything is told, and now and then without."""
        caller = self._exchange.caller
        if not self._untold and not caller.is_due:
            return False
        standing = await caller.confirm()
        self._ended |= standing == Standing.GONE
        return standing == Standing.CONFIRMED

    async def _tell_changes(self, changed: Collection[Subject]) -> None:
        exchange, honoured = self._exchange, self._honoured
        told = await concerned(exchange.server, exchange.principal, changed, honoured.uris)
        # Changes of one list may be of several subjects, and are told once.
        for notification in dict.fromkeys(
            honoured.notifications[each] for each in honoured.notifications if each in told
        ):
            await exchange.response.event(notification(self._id))

    async def _tell_tasks(self, changed: Collection[Subject]) -> None:
        for notification in await self._honoured.tasks.of(changed):
            await self._exchange.response.event(notification)

    async def _acknowledge(self) -> None:
        await self._exchange.response.start_events()
        await self._exchange.response.event(notifications.acknowledged(self._id, self._honoured.filter))

    def _row(self) -> ListenStreamRow:
        """What people see of it. Of tasks their number: a handle is its client's alone."""
        exchange, shown = self._exchange, dict(self._honoured.filter)
        if handles := shown.pop("taskIds", None):
            shown["tasks"] = len(handles)
        info = exchange.route.metadata.client_info or {}
        return listen_streams.row(
            exchange.server.identity.boot_id,
            {
                **exchange.principal.columns,
                "remote_address": exchange.remote_address,
                "protocol_version": exchange.route.metadata.protocol_version,
                "filter": shown,
            },
            principal_label=exchange.principal.label,
            client_name=" ".join(info[key] for key in ("name", "version") if key in info),
        )

    async def _close(self) -> None:
        await self._exchange.complete(results.listen_closed(self._id, self._exchange.server_info()))
        if self._exchange.response.shared:
            await self._exchange.response.event(notifications.listen_cancelled(self._id))


async def burst(listener: Listener) -> set[Subject]:
    """Let a burst of changes pass, and say what they changed: clients answer each notification by asking again."""
    changes: set[Subject] = set()
    began_at = time.monotonic()
    while not listener.ended and time.monotonic() - began_at < MAX_BURST_SECONDS:
        await asyncio.sleep(QUIET_SECONDS)
        if not (changed := listener.take()):
            break
        changes |= changed
    return changes


async def serve(exchange: Exchange) -> None:
    """Serve one `subscriptions/listen`."""
    chosen = read_listen(exchange.route)
    if isinstance(chosen, Rejection):
        await exchange.reject(chosen)
        return
    honoured = await honour(exchange, chosen)
    if isinstance(honoured, Rejection):
        await exchange.reject(honoured)
        return
    admission = exchange.server.admission
    refusal = admission.refuse_listener(exchange.principal, exchange.route.request_id)
    if refusal is not None:
        await exchange.reject(refusal)
        return
    stream = ListenStream(exchange, honoured)
    with admission.listeners.hold(exchange.principal, stream):
        await stream.run()
