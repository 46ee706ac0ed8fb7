"""`mcp stdio`: serves one client on the standard streams of this process.

The client can send at once, while tables are created and a worker is started in the background. At the end its work is
cancelled before the worker is stopped. No process is left behind, however often the command is interrupted.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.management.serving import local_caller
from mcp_app.management.serving.own_worker import OwnWorker
from mcp_app.transport import server as servers
from mcp_app.transport.stdio.connection import StdioConnection
from mcp_app.transport.stdio.lines import LineReader, LineWriter
from mcp_app.transport.stdio.requests import NotReadyError
from mcp_app.transport.stdio.streams import StandardStreams

logger = logging.getLogger(__name__)

PARENT_POLL_SECONDS = 0.5
QUIT_STATUS = 130
"""The exit status after a second Ctrl-C."""
NOT_READY = "This server cannot serve yet; its standard error shows what to do."
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StdioOptions:
    """The options of `mcp stdio`. If `concurrency` is `None`, no worker is started. `username` is optional."""

    concurrency: int | None
    username: str | None
    endpoint: str
    """The name of the endpoint."""


def serve(options: StdioOptions, streams: StandardStreams, say: Say) -> bool:
    """Serve until the client closes its end or is gone, or until SIGINT or SIGTERM.

    Returns whether the site could serve at all. `say` prints messages for people, and must not write to the client.
    """
    return asyncio.run(_Session(options, streams, say).run())


class _Session:
    """One run."""

    def __init__(self, options: StdioOptions, streams: StandardStreams, say: Say) -> None:
        self._options = options
        self._streams = streams
        self._say = say
        self._worker = (
            None if options.concurrency is None else OwnWorker(options.concurrency, on_failed=self._worker_failed)
        )
        self._lines = LineReader(streams.incoming, settings.MAX_BODY_BYTES)
        self._terminating: asyncio.Task[None] | None = None
        self._ready = True

    async def run(self) -> bool:
        self._loop = loop = asyncio.get_running_loop()
        server = servers.current()
        for number in _SIGNALS:  # after `current`, whose own handlers would not stop the worker
            loop.add_signal_handler(number, self._terminate, server)
        writer = LineWriter(self._streams.outgoing, on_gone=self._lines.close)
        caller: asyncio.Future[Principal] = loop.create_future()
        preparing = loop.create_task(self._prepare(caller), name="mcp-prepare")
        following = loop.create_task(self._follow_parent(os.getppid()), name="mcp-parent")
        try:
            await StdioConnection(server, self._lines, writer, caller, self._options.endpoint).run()
        finally:
            following.cancel()
            await preparing
            await server.stop()
            await writer.close()
            if self._worker is not None:
                await asyncio.to_thread(self._worker.stop)
        return self._ready

    async def _prepare(self, caller: "asyncio.Future[Principal]") -> None:
        """Prepare the site, find the caller, and start a worker if none is alive."""
        try:
            asked = self._options.username, self._options.endpoint
            caller.set_result(await asyncio.to_thread(local_caller.prepared, *asked, self._say))
        except local_caller.NotReady as error:
            self._ready = False
            self._say(str(error))
            caller.set_exception(NotReadyError(NOT_READY))
            caller.exception()  # the client may never send a request
            return
        if self._worker is not None:
            self._worker.start()

    async def _follow_parent(self, parent_pid: int) -> None:
        """End when the client that started this process ends, even if other processes keep the streams open."""
        while os.getppid() == parent_pid:  # noqa: ASYNC110 - there is no event for the end of a parent
            await asyncio.sleep(PARENT_POLL_SECONDS)
        self._lines.close()

    def _terminate(self, server: servers.Server) -> None:
        if self._terminating is not None:
            self._quit()
        self._terminating = asyncio.get_running_loop().create_task(self._drain(server), name="mcp-terminate")

    def _worker_failed(self, reason: str) -> None:
        """End the session, because no worker will run its calls. Called in the worker's thread."""
        self._ready = False
        self._say(reason)
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._terminating is None:
            self._terminate(servers.current())

    async def _drain(self, server: servers.Server) -> None:
        await server.stop()
        self._lines.close()

    def _quit(self) -> NoReturn:
        """Exit at once and leave no process."""
        if self._worker is not None:
            self._worker.kill()
        with suppress(RuntimeError):  # the signal arrived during a write
            self._say("Stopped at once.")
        os._exit(QUIT_STATUS)  # without waiting for threads, which may hang
