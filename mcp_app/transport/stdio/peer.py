"""The client at the other end of a stdio connection, and a legacy client's session.

A session is in memory and lasts as long as its connection. It sends changes of lists and watched
resources, and the heartbeat of workers, outside of any request. Changes are sent only after the
client has sent `notifications/initialized`. Source: 2025-11-25 basic/lifecycle,
server/utilities/logging, server/resources "Subscriptions".
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle import redaction
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.legacy.requests import Handshake
from mcp_app.protocol.revisions import Revision
from mcp_app.transport.legacy import notices
from mcp_app.transport.legacy.notices import Notices
from mcp_app.transport.process import heartbeats
from mcp_app.transport.server import Server
from mcp_app.transport.serving.callers import ASK_AGAIN_SECONDS
from mcp_app.transport.serving.responder import PeerGoneError
from mcp_app.transport.stdio.lines import LineWriter
from mcp_app.transport.subscriptions.filters import visible_changes
from mcp_app.transport.subscriptions.stream import wait_for_burst
from mcp_app.transport.watching.change_table import ChangeListener

logger = logging.getLogger(__name__)


class NotificationTask:
    """Sends notifications of one kind to a client until it is ended."""

    def __init__(self, send: Callable[[], Awaitable[None]], listener: ChangeListener | None = None) -> None:
        """Start to send. The `listener` is closed together with the task."""
        self._task = asyncio.get_running_loop().create_task(self._run(send), name="mcp-session")
        if listener is not None:  # a callback, because the task may be cancelled before it begins
            self._task.add_done_callback(lambda _: listener.close())

    def end(self) -> None:
        self._task.cancel()

    async def wait_ended(self) -> None:
        await asyncio.wait([self._task])

    async def _run(self, send: Callable[[], Awaitable[None]]) -> None:
        try:
            await send()
        except PeerGoneError as error:
            logger.info("no more notifications are sent to a session: %s", error)
        except Exception:
            logger.exception("sending notifications to a session failed; no more of this kind are sent to it")


class StdioSession:
    """A `LegacySession`, from `initialize` to the end of its connection."""

    def __init__(
        self, server: Server, writer: LineWriter, principal: Principal, revision: Revision, handshake: Handshake
    ) -> None:
        self.revision = revision
        self.handshake = handshake
        self.asking: set[UUID] = set()
        """The calls and reads that have asked the client a question. Only they accept answers."""
        self._server = server
        self._writer = writer
        self._principal = principal
        self._lock = asyncio.Lock()
        self._listening = asyncio.Event()
        self._list_task: NotificationTask | None = None
        self._resource_tasks: dict[str, NotificationTask] = {}
        self._heartbeat_task: NotificationTask | None = None
        self._initialized = asyncio.Event()

    async def set_log_level(self, level: str) -> None:
        self.handshake = replace(self.handshake, log_level=level)
        if level != heartbeats.LEVEL and self._heartbeat_task is not None:
            self._heartbeat_task.end()
            self._heartbeat_task = None
        elif level == heartbeats.LEVEL and self._heartbeat_task is None:
            self._heartbeat_task = NotificationTask(self._send_heartbeats)

    async def subscribe(self, uri: str) -> bool:
        """Raises `django.db.Error`."""
        async with self._lock:
            resource = notices.subjects_of_resources([uri])
            if uri not in self._resource_tasks:
                if len(self._resource_tasks) >= settings.MAX_RESOURCE_SUBSCRIPTIONS:
                    return False
                self._resource_tasks[uri] = await self._start_notifying(notices.resource_notices(resource), resource)
        return True

    async def unsubscribe(self, uri: str) -> None:
        async with self._lock:
            if (task := self._resource_tasks.pop(uri, None)) is not None:
                task.end()

    def mark_initialized(self) -> bool:
        """Note that the client has sent `notifications/initialized`.

        Return whether it was the first time.
        """
        is_first = not self._initialized.is_set()
        self._initialized.set()
        return is_first

    async def listen(self, principal: Principal) -> None:
        """Begin to collect changes of lists, for `principal`, the authenticated caller.

        Raises `django.db.Error`.
        """
        self._principal = principal
        async with self._lock:
            if self._list_task is None and not self._server.admission.draining:
                self._list_task = await self._start_notifying(
                    notices.list_notices(principal.endpoint), {}, counts_as_listener=True
                )
                self._listening.set()

    def end(self) -> None:
        """Stop sending, because the connection or the server process ends."""
        for task in self._notification_tasks:
            task.end()

    async def wait_ended(self) -> None:
        for task in self._notification_tasks:
            await task.wait_ended()

    @property
    def _notification_tasks(self) -> list[NotificationTask]:
        return [
            each for each in (self._list_task, self._heartbeat_task, *self._resource_tasks.values()) if each is not None
        ]

    async def _start_notifying(
        self, messages: Notices, resources: Mapping[str, str], *, counts_as_listener: bool = False
    ) -> NotificationTask:
        """Send these changes from now on. Lists count as the principal's one subscription."""
        listener = await self._server.row_watcher.listen(tuple(messages))

        async def send() -> None:
            admitted = self._server.admission.listeners
            with admitted.hold(self._principal, self) if counts_as_listener else nullcontext():
                await self._send_changes(listener, messages, resources)

        return NotificationTask(send, listener)

    async def _send_changes(self, listener: ChangeListener, messages: Notices, resources: Mapping[str, str]) -> None:
        await self._initialized.wait()
        while True:
            changed = await listener.next()
            changed |= await wait_for_burst(listener)
            visible = await self._visible_changes(changed & messages.keys(), resources)
            for notice in notices.distinct(messages[subject] for subject in messages if subject in visible):
                await self._writer.write(notice)

    async def _visible_changes(self, changed: Collection[Any], resources: Mapping[str, str]) -> set[Any]:
        """Return the visible changes, and try again if that fails.

        No client reopens this stream, so an error must not end it.
        """
        while True:
            try:
                return await visible_changes(self._server, self._principal, changed, resources)
            except Exception as error:
                logger.error(
                    "it could not be determined whether the client may be notified of a change, trying again",
                    exc_info=redaction.error_without_text(error),
                )
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _send_heartbeats(self) -> None:
        await self._listening.wait()
        with self._server.heartbeats.of_connection() as heartbeat:
            heartbeat.want(True)
            while True:
                await asyncio.sleep(heartbeat.wait)
                if (beat := await heartbeat.take()) is not None:
                    await self._writer.write(beat)


@dataclass(slots=True)
class StdioPeer:
    """A `LegacyPeer` that also serves modern clients."""

    server: Server
    writer: LineWriter
    session: StdioSession | None = None
    """The session of a legacy client, from its `initialize` on."""

    async def listen(self, principal: Principal) -> None:
        """Begin to collect the changes that its session sends. Raises `django.db.Error`."""
        if self.session is not None:
            await self.session.listen(principal)

    async def leave(self) -> None:
        """End the session, because the client has disconnected."""
        if self.session is not None:
            self.session.end()
            await self.session.wait_ended()

    async def begin_session(self, principal: Principal, handshake: Handshake, revision: Revision) -> Rejection | None:
        self.session = StdioSession(self.server, self.writer, principal, revision, handshake)
        return None

    @contextmanager
    def asking(self, asker: UUID) -> Iterator[None]:
        assert self.session is not None, "what comes before initialize is refused"
        self.session.asking.add(asker)
        try:
            yield
        finally:
            self.session.asking.discard(asker)

    async def withdraw_questions(self, withdrawals: Iterable[Mapping[str, Any]]) -> None:
        for message in withdrawals:
            await self.writer.write(message)
