"""`subscriptions/listen`: a stream of change notifications.

Theory of operation. A waiting stream is only an object: it has no task and no timer, and holds no
part of its request. Two shared components call it:

    1. The row watcher calls `changed` when a subject has changed. The stream adds the subject to
       `_unsent` and plans its next turn after the burst.
    2. The scheduler calls `attend` at `due_at`. The stream then sends the changes that its caller
       may see, sends a keep-alive comment, or ends.

Changes within one burst become one notification for each list or resource, because clients react to
a notification by asking again. Before anything is sent, the caller is confirmed, so that a stream
ends when the site no longer accepts its caller. Nothing is sent that the client did not ask for and
that was not acknowledged.

Source: 2026-07-28 basic/patterns/subscriptions.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle.requests.observation import Subject
from mcp_app.lifecycle.sessions import listen_streams
from mcp_app.models import ListenStream as ListenStreamRow
from mcp_app.protocol import jsonrpc, notifications, results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import read_listen
from mcp_app.transport.serving import failures
from mcp_app.transport.serving.callers import ASK_AGAIN_SECONDS, CallerStatus
from mcp_app.transport.serving.exchange import Exchange, server_info
from mcp_app.transport.serving.responder import PeerGoneError
from mcp_app.transport.subscriptions.filters import GrantedFilter, grant_filter, visible_changes
from mcp_app.transport.watching.change_table import ChangeListener

logger = logging.getLogger(__name__)

QUIET_SECONDS: Final = 0.01
MAX_BURST_SECONDS: Final = 0.5
"""A burst ends when nothing has changed for `QUIET_SECONDS`, or after this time."""


class SubscriptionStream:
    """One subscription, from its acknowledgement to its end."""

    __slots__ = (
        "_burst_began_at", "_caller", "_ended", "_id", "_notices", "_on_over", "_principal", "_response", "_row",
        "_server", "_tasks", "_unsent", "_uris", "due_at", "over",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, granted: GrantedFilter) -> None:
        self.due_at = 0.0
        self.over = False
        self._server = exchange.server
        self._response = exchange.response
        self._id = exchange.route.request_id
        self._principal = exchange.principal
        self._caller = exchange.caller
        self._notices = granted.notices
        self._uris = granted.uris
        self._tasks = granted.tasks if granted.tasks.subjects else None
        self._row: UUID | None = None
        self._unsent: set[Subject] = set()
        """Subjects that have changed and whose notifications are not sent yet."""
        self._burst_began_at: float | None = None
        """The time of the first change that no turn has taken up yet."""
        self._ended = False
        self._on_over: Callable[[], object] | None = None

    @property
    def subjects(self) -> tuple[Subject, ...]:
        return (*self._notices, *(self._tasks.subjects if self._tasks is not None else ()))

    async def open(self, exchange: Exchange, granted: GrantedFilter) -> None:
        """Acknowledge the subscription and serve it until it is `over` or its client leaves."""
        # Joined before the acknowledgement, so that a change in between is not lost.
        await self._server.row_watcher.join(self, self.subjects)
        await _acknowledge(exchange, granted)
        row = _row(exchange, granted)
        self._row = row.pk
        self._server.open_streams.add(row, self)
        if self._tasks is not None:
            await self._send_tasks(self._tasks.subjects)
        self._schedule()
        self._server.stream_scheduler.add(self)

    def end(self) -> None:
        self._ended = True
        self._schedule()
        self._server.stream_scheduler.reschedule(self)

    def when_over(self, tell: Callable[[], object]) -> None:
        self._on_over = tell

    def leave(self) -> None:
        self.over = True
        self._server.stream_scheduler.remove(self)
        self._server.row_watcher.leave(self, self.subjects)
        if self._row is not None:
            self._server.open_streams.remove(self._row)
        self._server.admission.listeners.remove(self._principal, self)

    def changed(self, subject: Subject, version: int) -> None:
        self._unsent.add(subject)
        if self._burst_began_at is None:
            self._burst_began_at = time.monotonic()
        self._schedule()
        self._server.stream_scheduler.reschedule(self)

    async def serve(self) -> None:
        """Do what is due: send changes, send a keep-alive comment, or end the stream."""
        try:
            self._burst_began_at = None
            await self._send_changes()
            if self._ended:
                await self.close()
                self._finish()
            elif self._response.silent_seconds >= settings.KEEP_ALIVE:
                await self._response.keep_alive()
        except PeerGoneError as error:
            logger.info("a notification was not delivered: %s", error)
            self._finish()
        except Exception as error:
            try:
                await self._response.event(jsonrpc.error_response(failures.explain(error, self._id)), last=True)
            except PeerGoneError as gone:
                logger.info("a failure was not delivered: %s", gone)
            self._finish()
        self._schedule()

    def _schedule(self) -> None:
        """Set the time of the next turn."""
        now = time.monotonic()
        if self._ended:
            self.due_at = now
        elif self._burst_began_at is not None:
            # Clients react to each notification by asking again, so wait until a burst is over.
            self.due_at = min(self._burst_began_at + MAX_BURST_SECONDS, now + QUIET_SECONDS)
        else:
            quiet: float = max(0.0, settings.KEEP_ALIVE - self._response.silent_seconds)
            self.due_at = now + min(quiet, ASK_AGAIN_SECONDS if self._unsent else self._caller.seconds_to_wait)

    async def _send_changes(self) -> None:
        if self._ended or not await self._confirm_caller():
            return
        changed, self._unsent = self._unsent, set()
        # Several subjects may belong to one list, whose notification is sent once.
        visible = await visible_changes(self._server, self._principal, changed & self._notices.keys(), self._uris)
        for notice in dict.fromkeys(self._notices[each] for each in self._notices if each in visible):
            await self._response.event(notice(self._id))
        await self._send_tasks(changed)

    async def _confirm_caller(self) -> bool:
        """Confirm the caller before anything is sent, and from time to time.

        Return whether to send changes.

        Ends the stream if the site no longer accepts the caller.
        """
        if not self._unsent and not self._caller.is_due:
            return False
        standing = await self._caller.confirm()
        self._ended |= standing.ends_response
        return standing == CallerStatus.CONFIRMED

    async def _send_tasks(self, changed: Collection[Subject]) -> None:
        if self._tasks is not None:
            for notification in await self._tasks.notifications_for(changed):
                await self._response.event(notification)

    async def close(self) -> None:
        """Send the result. Nothing may follow it."""
        closed = results.listen_closed(self._id, server_info(self._principal.endpoint))
        await self._response.event(jsonrpc.response(self._id, closed), last=True)
        if self._response.shared:
            await self._response.event(notifications.listen_cancelled(self._id))

    def _finish(self) -> None:
        self.leave()
        if self._on_over is not None:
            self._on_over()


async def wait_for_burst(listener: ChangeListener) -> set[Subject]:
    """Wait until a burst of changes is over, and return the changed subjects.

    Clients react to each notification by asking again, so one notification should cover the burst.
    """
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
    granted = await grant_filter(exchange, chosen)
    if isinstance(granted, Rejection):
        await exchange.reject(granted)
        return
    admission = exchange.server.admission
    refusal = admission.refuse_listener(exchange.principal, exchange.route.request_id)
    if refusal is not None:
        await exchange.reject(refusal)
        return
    stream = SubscriptionStream(exchange, granted)
    if not stream.subjects:
        await _acknowledge(exchange, granted)
        await stream.close()
        return
    admission.listeners.add(exchange.principal, stream)
    try:
        await stream.open(exchange, granted)
        if exchange.response.shared:
            over = asyncio.Event()
            stream.when_over(over.set)
            if not stream.over:
                await over.wait()
    except BaseException:
        stream.leave()
        raise
    exchange.detached = stream


async def _acknowledge(exchange: Exchange, granted: GrantedFilter) -> None:
    await exchange.response.start_events()
    await exchange.response.event(notifications.acknowledged(exchange.route.request_id, granted.filter))


def _row(exchange: Exchange, granted: GrantedFilter) -> ListenStreamRow:
    """Return the row that the admin shows.

    It has only the number of tasks, because a task's id is a secret of its client.
    """
    shown = dict(granted.filter)
    if handles := shown.pop("taskIds", None):
        shown["tasks"] = len(handles)
    info = exchange.route.metadata.client_info or {}
    return listen_streams.build_row(
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
