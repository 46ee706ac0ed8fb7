"""`mcp stdio`: one client on this process's standard streams, and its worker, from the first byte to the last process.

Owns the order: the client is heard at once, while tables are made and a worker is started behind its back; at the end
its work is cancelled before the worker is stopped. Refuses to leave a process behind, however often it is told to stop.
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
from mcp_app.management import local_caller
from mcp_app.management.own_worker import OwnWorker
from mcp_app.transport import server as servers
from mcp_app.transport.stdio.connection import Connection
from mcp_app.transport.stdio.lines import Lines
from mcp_app.transport.stdio.requests import NotReadyError
from mcp_app.transport.stdio.streams import Streams
from mcp_app.transport.stdio.writer import Writer

logger = logging.getLogger(__name__)

PARENT_POLL_SECONDS = 0.5
QUIT_STATUS = 130
"""The exit status of a server that was not given the time to end: the usual one after Ctrl-C."""
NOT_READY = "This server cannot serve yet; what is to be done was said on its standard error."
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What `mcp stdio` was asked for. `concurrency` None: no own worker; `username` None: no user of the site."""

    concurrency: int | None
    username: str | None
    endpoint: str
    """Its name."""


def serve(options: Options, streams: Streams, say: Say) -> bool:
    """Serve until the client closes its end, is gone, or SIGINT or SIGTERM; whether the site could serve at all.

    `say` is for people, and must not write to the client.
    """
    return asyncio.run(_Session(options, streams, say).run())


class _Session:
    """The parts of one run."""

    def __init__(self, options: Options, streams: Streams, say: Say) -> None:
        self._options = options
        self._streams = streams
        self._say = say
        self._worker = None if options.concurrency is None else OwnWorker(options.concurrency)
        self._lines = Lines(streams.incoming, settings.MAX_BODY_BYTES)
        self._terminating: asyncio.Task[None] | None = None
        self._ready = True

    async def run(self) -> bool:
        loop = asyncio.get_running_loop()
        server = servers.current()
        for number in _SIGNALS:  # after `current`, whose own handlers know of no worker
            loop.add_signal_handler(number, self._terminate, server)
        writer = Writer(self._streams.outgoing, on_gone=self._lines.close)
        caller: asyncio.Future[Principal] = loop.create_future()
        preparing = loop.create_task(self._prepare(caller), name="mcp-prepare")
        following = loop.create_task(self._follow_parent(os.getppid()), name="mcp-parent")
        try:
            await Connection(server, self._lines, writer, caller, self._options.endpoint).run()
        finally:
            following.cancel()
            await preparing
            await server.stop()
            await writer.close()
            if self._worker is not None:
                await asyncio.to_thread(self._worker.stop)
        return self._ready

    async def _prepare(self, caller: "asyncio.Future[Principal]") -> None:
        """Find out who asks, once the site can tell; then see to a worker."""
        try:
            asked = self._options.username, self._options.endpoint
            caller.set_result(await asyncio.to_thread(local_caller.prepared, *asked, self._say))
        except local_caller.NotReady as error:
            self._ready = False
            self._say(str(error))
            caller.set_exception(NotReadyError(NOT_READY))
            caller.exception()  # maybe nobody asks
            return
        if self._worker is not None:
            self._worker.start()

    async def _follow_parent(self, parent_pid: int) -> None:
        """End with the client that started this process, even if others hold its end of the streams open."""
        while os.getppid() == parent_pid:  # noqa: ASYNC110 - a parent's end tells nobody
            await asyncio.sleep(PARENT_POLL_SECONDS)
        self._lines.close()

    def _terminate(self, server: servers.Server) -> None:
        if self._terminating is not None:
            self._quit()
        self._terminating = asyncio.get_running_loop().create_task(self._drain(server), name="mcp-terminate")

    async def _drain(self, server: servers.Server) -> None:
        await server.stop()
        self._lines.close()

    def _quit(self) -> NoReturn:
        """Leave at once, and leave no process."""
        if self._worker is not None:
            self._worker.kill()
        with suppress(RuntimeError):  # the signal came while something was being written
            self._say("Stopped at once.")
        os._exit(QUIT_STATUS)  # not waiting for threads, which may be what hangs
