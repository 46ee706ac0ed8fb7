"""The parts that all requests of a server process share, and their shutdown.

There is one `Server` for each event loop. It is created when the first request arrives.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Hashable
from functools import cache
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from django.conf import settings as django_settings

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import audiences
from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.protocol.errors import Rejection
from mcp_app.states import ProcessRole
from mcp_app.transport import shutdown
from mcp_app.transport.process.admission import Admission, shutting_down
from mcp_app.transport.process.author_threads import AuthorThreads
from mcp_app.transport.process.cancellations import CancellationQueue
from mcp_app.transport.process.heartbeats import Heartbeats
from mcp_app.transport.process.threads import KeyedSingleFlight, Threads
from mcp_app.transport.process.tool_lists import ToolLists
from mcp_app.transport.process.upkeep import Upkeep
from mcp_app.transport.watching.open_streams import OpenStreams
from mcp_app.transport.watching.row_watcher import RowWatcher
from mcp_app.transport.watching.scheduler import StreamScheduler

logger = logging.getLogger(__name__)

R = TypeVar("R")

THREADS = 4
BACKGROUND_THREADS = 2
ENDING_SECONDS = 5.0
"""How long each part may take to end: its database or its channel layer may not answer."""
DAPHNE_WARNING = (
    "Daphne parses forms while every other request waits: a POST of 4 MB, to any path, can stop this process for "
    "seconds. Serve the site with `manage.py mcp serve --no-worker`, uvicorn or Hypercorn "
    "instead; see docs/how-to/deployment.md."
)


class Arriving(Protocol):
    """A request whose body is still arriving."""

    def refuse(self, refusal: Rejection) -> None:
        """Refuse it without waiting for the rest of its body."""


class Server:
    """The parts that requests in one process share."""

    def __init__(self) -> None:
        self.identity = Identity(ProcessRole.SERVER)
        self.rows = Threads("rows", THREADS, patience=settings.DATABASE_TIMEOUT)
        """For queries."""
        self.calls = Threads("calls", THREADS)
        """For admitting calls, which waits for the database and the broker but must not delay
        results."""
        self.broker = Threads("broker", THREADS)
        """For publishing requests again, which may wait for the broker."""
        self.parsing = Threads("parsing", 1)
        """For large request bodies, one after another: each further thread would delay the event
        loop, because Python runs one thread at a time."""
        self.authentication = Threads("authentication", THREADS)
        """For the site's authenticator. If it hangs, only unauthenticated requests wait."""
        self._background = Threads("background", BACKGROUND_THREADS)
        """For cancellations and supervision, so that many clients who leave do not delay those who
        come."""
        self.authors = AuthorThreads()
        """For resources, prompts and completions."""
        self.cancellations = CancellationQueue(self._background)
        self.admission = Admission()
        self.upkeep = Upkeep(self.identity, self.rows, self._background)
        self.row_watcher = RowWatcher(self.identity.boot_id, self.rows, self.upkeep)
        self.open_streams = OpenStreams(self.identity.boot_id, self._background, self.row_watcher)
        self.heartbeats = Heartbeats(self.rows)
        self.tool_lists = ToolLists(self.rows)
        self.stream_scheduler = StreamScheduler()
        self.list_rights = KeyedSingleFlight(self.rows, _visible_lists)
        self.once = cache(_call)
        """Caches the result of a function that depends on settings and declarations only."""
        self.arriving: WeakSet[Arriving] = WeakSet()
        self.stopped = False
        self._stopping: asyncio.Task[None] | None = None

    def open(self) -> None:
        self.row_watcher.open()

    async def stop(self) -> None:
        """Drain, then end all parts. Later calls wait for the same end."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(), name="mcp-stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        await shutdown.drain_streams(self.admission)
        self.stopped = True
        for request in list(self.arriving):
            # The web server would wait for the rest of the body, which may never come.
            request.refuse(shutting_down())
        await _end("the storing of its listen streams", self.open_streams.close())
        await _end("the watching of rows", self.row_watcher.close())
        await _end("the count of cancellation attempts without effect", self.cancellations.close())
        await _end("its heartbeat", self.rows.run(processes.stop, self.identity))
        pools = (self.rows, self.calls, self.broker, self.parsing, self.authentication, self._background, self.authors)
        await asyncio.gather(*(_end("a thread pool", pool.close()) for pool in pools))


def _call(function: Callable[..., R], *args: Hashable) -> R:
    return function(*args)


def _visible_lists(asked: tuple[Principal, frozenset[str]]) -> set[str]:
    return audiences.visible_to(*asked)


async def _end(what: str, step: Coroutine[Any, Any, object]) -> None:
    """End one part.

    If it fails, or takes too long, supervision and the end of the process make up for it.
    """
    try:
        async with asyncio.timeout(ENDING_SECONDS):
            await step
    except Exception as error:
        logger.error("this process exits, but could not end %s properly (%s)", what, str(error) or "it took too long")


_servers: WeakKeyDictionary[asyncio.AbstractEventLoop, Server] = WeakKeyDictionary()


def current() -> Server:
    """Return the server of the running event loop. Creates it if necessary."""
    loop = asyncio.get_running_loop()
    server = _servers.get(loop)
    if server is None:
        server = _servers[loop] = Server()
        server.open()
        shutdown.stop_with(server.stop)
    return server


def existing() -> Server | None:
    """Return the server of the running event loop, or `None` if there is none."""
    return _servers.get(asyncio.get_running_loop())


def warn_of_daphne(is_embedded: bool) -> None:
    """Log a warning if Daphne itself runs this event loop, not the embedded server.

    Under `DEBUG` do nothing.
    """
    daphne = sys.modules.get("daphne.server")
    if is_embedded or daphne is None or django_settings.DEBUG:
        return
    if daphne.twisted_loop is asyncio.get_running_loop():
        logger.warning(DAPHNE_WARNING)
