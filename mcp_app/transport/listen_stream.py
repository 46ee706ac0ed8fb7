"""`subscriptions/listen`: a stream of change notifications until its client or this process ends it.

Between two notifications it is an object that the tail tells of changes and the attendant of the time, and nothing
else: no task, no timer, no part of its request. Refuses to send on the stream what was not asked for and acknowledged.
Source: 2026-07-28 basic/patterns/subscriptions.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import listen_streams
from mcp_app.lifecycle.observation import Subject
from mcp_app.models import ListenStream as ListenStreamRow
from mcp_app.protocol import jsonrpc, notifications, results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import read_listen
from mcp_app.transport import failures
from mcp_app.transport.callers import ASK_AGAIN_SECONDS, Standing
from mcp_app.transport.concerned import concerned
from mcp_app.transport.exchange import Exchange, server_info
from mcp_app.transport.honoured import Honoured, honour
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.subjects import Listener

logger = logging.getLogger(__name__)

QUIET_SECONDS: Final = 0.01
MAX_BURST_SECONDS: Final = 0.5
"""Changes are one notification until there was quiet for that long, or the burst has lasted this long."""


class ListenStream:
    """One subscription, from its acknowledgement to its end."""

    __slots__ = (
        "_burst_at", "_caller", "_ended", "_id", "_notices", "_principal", "_response", "_row", "_server", "_tasks",
        "_tell_over", "_untold", "_uris", "due_at", "over",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, honoured: Honoured) -> None:
        self.due_at = 0.0
        self.over = False
        self._server = exchange.server
        self._response = exchange.response
        self._id = exchange.route.request_id
        self._principal = exchange.principal
        self._caller = exchange.caller
        self._notices = honoured.notices
        self._uris = honoured.uris
        self._tasks = honoured.tasks if honoured.tasks.subjects else None
        self._row: UUID | None = None
        self._untold: set[Subject] = set()
        """What changed since it was last known that the client may still be told."""
        self._burst_at: float | None = None
        """When the first of the changes came that nobody has begun to tell."""
        self._ended = False
        self._tell_over: Callable[[], object] | None = None

    @property
    def subjects(self) -> tuple[Subject, ...]:
        return (*self._notices, *(self._tasks.subjects if self._tasks is not None else ()))

    async def open(self, exchange: Exchange, honoured: Honoured) -> None:
        """Acknowledge it, and have it told of changes and of the time until it is `over` or somebody leaves it."""
        # Joined before it is acknowledged: a change in between is told, not lost.
        await self._server.tail.join(self, self.subjects)
        await _acknowledge(exchange, honoured)
        row = _row(exchange, honoured)
        self._row = row.pk
        self._server.open_streams.add(row, self)
        if self._tasks is not None:
            await self._tell_tasks(self._tasks.subjects)
        self._plan()
        self._server.attendant.begin(self)

    def end(self) -> None:
        self._ended = True
        self._plan()
        self._server.attendant.reschedule(self)

    def when_over(self, tell: Callable[[], object]) -> None:
        self._tell_over = tell

    def leave(self) -> None:
        self.over = True
        self._server.attendant.end(self)
        self._server.tail.leave(self, self.subjects)
        if self._row is not None:
            self._server.open_streams.remove(self._row)
        self._server.admission.listeners.remove(self._principal, self)

    def changed(self, subject: Subject, version: int) -> None:
        self._untold.add(subject)
        if self._burst_at is None:
            self._burst_at = time.monotonic()
        self._plan()
        self._server.attendant.reschedule(self)

    async def attend(self) -> None:
        """Tell what has changed, say that it is there, or end it: what is due."""
        try:
            self._burst_at = None
            await self._tell_changes()
            if self._ended:
                await self.close()
                self._end_over()
            elif self._response.silent_seconds >= settings.KEEP_ALIVE:
                await self._response.keep_alive()
        except PeerGoneError as error:
            logger.info("a notification was not delivered: %s", error)
            self._end_over()
        except Exception as error:
            await self._break_off(failures.explain(error, self._id))
        self._plan()

    def _plan(self) -> None:
        """Say when it is to be attended to next."""
        now = time.monotonic()
        if self._ended:
            self.due_at = now
        elif self._burst_at is not None:
            # Clients answer each notification by asking again, so a burst is let pass.
            self.due_at = min(self._burst_at + MAX_BURST_SECONDS, now + QUIET_SECONDS)
        else:
            quiet: float = max(0.0, settings.KEEP_ALIVE - self._response.silent_seconds)
            self.due_at = now + min(quiet, ASK_AGAIN_SECONDS if self._untold else self._caller.seconds_until_due)

    async def _tell_changes(self) -> None:
        if self._ended or not await self._may_tell():
            return
        changed, self._untold = self._untold, set()
        # Changes of one list may be of several subjects, and are told once.
        told = await concerned(self._server, self._principal, changed & self._notices.keys(), self._uris)
        for notice in dict.fromkeys(self._notices[each] for each in self._notices if each in told):
            await self._response.event(notice(self._id))
        await self._tell_tasks(changed)

    async def _may_tell(self) -> bool:
        """Whether the client is still who it was: asked before anything is told, and now and then without."""
        if not self._untold and not self._caller.is_due:
            return False
        standing = await self._caller.confirm()
        self._ended |= standing == Standing.GONE
        return standing == Standing.CONFIRMED

    async def _tell_tasks(self, changed: Collection[Subject]) -> None:
        if self._tasks is not None:
            for notification in await self._tasks.of(changed):
                await self._response.event(notification)

    async def close(self) -> None:
        """Send its result, after which nothing follows."""
        closed = results.listen_closed(self._id, server_info(self._principal.endpoint))
        await self._response.event(jsonrpc.response(self._id, closed), last=True)
        if self._response.shared:
            await self._response.event(notifications.listen_cancelled(self._id))

    async def _break_off(self, rejection: Rejection) -> None:
        try:
            await self._response.event(jsonrpc.error_response(rejection), last=True)
        except PeerGoneError as error:
            logger.info("a failure was not delivered: %s", error)
        self._end_over()

    def _end_over(self) -> None:
        self.leave()
        if self._tell_over is not None:
            self._tell_over()


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
    if not stream.subjects:
        await _acknowledge(exchange, honoured)
        await stream.close()
        return
    admission.listeners.add(exchange.principal, stream)
    try:
        await stream.open(exchange, honoured)
        if exchange.response.shared:
            await _until_over(stream)
    except BaseException:
        stream.leave()
        raise
    exchange.remaining = stream


async def _until_over(stream: ListenStream) -> None:
    over = asyncio.Event()
    stream.when_over(over.set)
    if not stream.over:
        await over.wait()


async def _acknowledge(exchange: Exchange, honoured: Honoured) -> None:
    await exchange.response.start_events()
    await exchange.response.event(notifications.acknowledged(exchange.route.request_id, honoured.filter))


def _row(exchange: Exchange, honoured: Honoured) -> ListenStreamRow:
    """What people see of it. Of tasks their number: a handle is its client's alone."""
    shown = dict(honoured.filter)
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
