"""A server process as the transport sees it: one `Server` for each event loop, made when the first request arrives.

Owns how its parts are put together and taken down. Refuses work once it is stopped.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from functools import cache
from typing import Any, Protocol, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import audiences
from mcp_app.conf import settings
from mcp_app.lifecycle import processes
from mcp_app.lifecycle.processes import Identity
from mcp_app.protocol.errors import Rejection
from mcp_app.states import ProcessRole
from mcp_app.transport import draining, signals
from mcp_app.transport.admission import Admission, shutting_down
from mcp_app.transport.attendant import Attendant
from mcp_app.transport.author_threads import AuthorThreads
from mcp_app.transport.cancellations import Cancellations
from mcp_app.transport.heartbeats import Heartbeats
from mcp_app.transport.hints import Hints
from mcp_app.transport.newest import NewestOf
from mcp_app.transport.open_streams import OpenStreams
from mcp_app.transport.tail import Tail
from mcp_app.transport.threads import Threads
from mcp_app.transport.tool_lists import ToolLists
from mcp_app.transport.upkeep import Upkeep

logger = logging.getLogger(__name__)

R = TypeVar("R")

THREADS = 4
BACKGROUND_THREADS = 2
ENDING_SECONDS = 5.0
"""What each part is given to end: it may wait for a database or a channel layer that answers nothing."""


class Arriving(Protocol):
    """A request whose body is still on its way."""

    def refuse(self, refusal: Rejection) -> None:
        """Answer it so, without the rest."""


class Server:
    """The parts that requests in one process share."""

    def __init__(self) -> None:
        self.identity = Identity(ProcessRole.SERVER)
        self.rows = Threads("rows", THREADS, patience=settings.DATABASE_TIMEOUT)
        """For the database alone."""
        self.calls = Threads("calls", THREADS)
        """For calls that come in: they wait for the database and the broker, and hold up nobody's result."""
        self.broker = Threads("broker", THREADS)
        """For publishing again: it may wait for the broker."""
        self.authentication = Threads("authentication", THREADS)
        """For the site's authenticator: one that hangs holds up those who have yet to say who they are, nobody else."""
        self._background = Threads("background", BACKGROUND_THREADS)
        """For cancelling and supervision: a crowd that leaves keeps nobody waiting who comes."""
        self.authors = AuthorThreads()
        """For resources, prompts and completions."""
        self.cancellations = Cancellations(self._background)
        self.admission = Admission()
        self.upkeep = Upkeep(self.identity, self.rows, self._background)
        self.hints = Hints(self.identity.boot_id, self._hinted)
        self.tail = Tail(self.rows, self.hints, self.upkeep)
        self.open_streams = OpenStreams(self.identity.boot_id, self._background, self.tail)
        self.heartbeats = Heartbeats(self.rows)
        self.tool_lists = ToolLists(self.rows)
        self.attendant = Attendant()
        self.list_rights = NewestOf(self.rows, _concerned)
        self.once = cache(_call)
        """What a function makes of some arguments, made once: of settings and declarations, which are there before."""
        self.arriving: WeakSet[Arriving] = WeakSet()
        self.stopped = False
        self._stopping: asyncio.Task[None] | None = None

    def open(self) -> None:
        self.hints.open()

    async def stop(self) -> None:
        """Drain, then take everything down; called again, wait for the same end."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(), name="mcp-stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        await draining.drain(self.admission)
        self.stopped = True
        for request in list(self.arriving):
            # A web server waits for what it has begun to receive, and this might never come.
            request.refuse(shutting_down())
        await _end("its rows of listen streams", self.open_streams.close())
        await _end("its reading of rows", self.tail.close())
        await _end("its listening for hints", self.hints.close())
        await _end("its audit of vain cancellations", self.cancellations.close())
        await _end("its sign of life", self.rows.run(processes.stop, self.identity))
        pools = (self.rows, self.calls, self.broker, self.authentication, self._background, self.authors)
        await asyncio.gather(*(_end("a pool of threads", pool.close()) for pool in pools))

    def _hinted(self, named: set[UUID] | None) -> None:
        self.tail.look(named)


def _call(function: Callable[..., R], *args: Hashable) -> R:
    return function(*args)


def _concerned(asked: tuple[Principal, frozenset[str]]) -> set[str]:
    return audiences.concerned(*asked)


async def _end(what: str, step: Coroutine[Any, Any, None]) -> None:
    """Take one part down; a part that fails, or does not end in time, is left to supervision and the process's end."""
    try:
        async with asyncio.timeout(ENDING_SECONDS):
            await step
    except Exception as error:
        logger.error("this process ends without having ended %s: %s", what, str(error) or "it takes too long")


_servers: WeakKeyDictionary[asyncio.AbstractEventLoop, Server] = WeakKeyDictionary()


def current() -> Server:
    """The server of the running event loop."""
    loop = asyncio.get_running_loop()
    server = _servers.get(loop)
    if server is None:
        server = _servers[loop] = Server()
        server.open()
        signals.chain(loop, server.stop)
    return server


def existing() -> Server | None:
    """As `current`, where one was made."""
    return _servers.get(asyncio.get_running_loop())
