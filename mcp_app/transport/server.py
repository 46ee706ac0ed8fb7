"""A server process as the transport sees it: one `Server` for each event loop, made when the first request arrives.

Owns how its parts are put together and taken down. Refuses work once it is stopped.
"""

import asyncio
import logging
from weakref import WeakKeyDictionary

from mcp_app.lifecycle import processes
from mcp_app.lifecycle.processes import Identity
from mcp_app.states import ProcessRole
from mcp_app.transport import draining, signals
from mcp_app.transport.admission import Admission
from mcp_app.transport.author_threads import AuthorThreads
from mcp_app.transport.cancellations import Cancellations
from mcp_app.transport.heartbeats import Heartbeats
from mcp_app.transport.hints import Hints
from mcp_app.transport.tail import Tail
from mcp_app.transport.threads import Threads
from mcp_app.transport.upkeep import Upkeep

logger = logging.getLogger(__name__)

THREADS = 4
BACKGROUND_THREADS = 2


class Server:
    """The parts that requests in one process share."""

    def __init__(self) -> None:
        self.identity = Identity(ProcessRole.SERVER)
        self.rows = Threads("rows", THREADS)
        """For the database alone."""
        self.broker = Threads("broker", THREADS)
        """For publishing: it may wait for the broker, and a broker that hangs holds up nobody's result."""
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
        self.heartbeats = Heartbeats(self.rows)
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
        await self.tail.close()
        await self.hints.close()
        await self.cancellations.close()
        try:
            await self.rows.run(processes.stop, self.identity)
        except Exception as error:
            logger.error("the end of this process could not be noted, supervision will see it: %s", error)
        await self.rows.close()
        await self.broker.close()
        await self.authentication.close()
        await self._background.close()
        await self.authors.close()

    def _hinted(self) -> None:
        self.tail.look()


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
