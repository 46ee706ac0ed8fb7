"""A `Stack` is one running site as real processes: its servers, which are used in turn, its workers, and its rows.

Closing it stops every process, and fails if one is left. The functions in `layouts` choose the processes.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Protocol

from tests.support.site import guide, programs, wire
from tests.support.site.inspector import Inspector, Row
from tests.support.site.programs import STARTING, Program
from tests.support.site.wire import BOTH, Connection, RequestId
from tests.support.waiting import eventually

SETTINGS: Final = "tests.acceptance.settings"
SLOTS_OF_A_WORKER: Final = 2
MANAGE: Final = (sys.executable, "manage.py")
LOG_CHARS: Final = 4000
CONCURRENCY: Final = f"--concurrency={SLOTS_OF_A_WORKER}"


class Sent(Protocol):
    """A call that was sent. Its row is found by `request_id`."""

    request_id: RequestId


class Server:
    """A server process and the port that it chose."""

    host = "127.0.0.1"

    def __init__(self, program: Program, address: str) -> None:
        self.program = program
        self.address = address
        self.port = int(program.says(address)[1])

    def stop(self) -> None:
        """Stop the server with SIGTERM. uvicorn raises the signal again after its shutdown, and ends by it."""
        assert self.program.stop() in (0, -signal.SIGTERM), self.program.output()


class Stack:
    """A running site."""

    def __init__(
        self,
        data: Path,
        engines: Mapping[str, str],
        *,
        workers: int,
        settings: str = SETTINGS,
        inside: Sequence[str] = (),
        pool: str = "prefork",
    ) -> None:
        self.data = data
        self.worker_options = (CONCURRENCY, f"--pool={pool}")
        self.settings = settings
        self.inside = inside
        """The command that every other command is started with, or nothing."""
        self.environment = {**os.environ, **engines, "MCPSITE_DATA": str(data), "DJANGO_SETTINGS_MODULE": settings}
        self.of_workers: Mapping[str, str] = {}
        """Additional environment variables of workers that are started as separate processes."""
        self.expected_workers = workers
        self.slots = workers * SLOTS_OF_A_WORKER
        self.servers: list[Server] = []
        self.worker_programs: list[Program] = []
        self._turns: Iterator[Server] = iter(())
        self._connections: list[Connection] = []
        self._programs: list[Program] = []

    @cached_property
    def inspector(self) -> Inspector:
        return Inspector(self.environment)

    @property
    def has_inspector(self) -> bool:
        """Whether the inspector has been started. The first question starts it."""
        return "inspector" in vars(self)

    def start(self, *command: str, **environment: str) -> Program:
        log = self.data / f"{len(self._programs)}.log"
        self._programs.append(Program([*self.inside, *command], {**self.environment, **environment}, log))
        return self._programs[-1]

    def logs(self) -> Iterator[tuple[str, str]]:
        """Yield the command and the end of the output of every program that was started."""
        for program in self._programs:
            yield " ".join(program.command), program.output()[-LOG_CHARS:]

    def start_embedded(self, *options: str) -> Server:
        """Start `mcp serve`, which runs Daphne and, unless the options disable it, a worker."""
        program = self.start(*MANAGE, "mcp", "serve", "--settings", self.settings, "--port=0", *options)
        program.says("READY")
        return Server(program, r"MCP endpoint +http://[0-9.]+:(\d+)/mcp")

    def start_uvicorn(self, *options: str) -> Server:
        program = self.start(sys.executable, "-m", "uvicorn", "mcpsite.asgi:application", "--port=0", *options)
        return Server(program, r"Uvicorn running on http://[0-9.]+:(\d+)")

    def start_from_guide(self, program: str) -> Server:
        """Start a server with its command line from docs/how-to/deployment.md."""
        return Server(self.start(*guide.server_commands()[program]), guide.SAYS[program])

    def start_again(self, server: Server) -> Server:
        """Start another process in place of a server that has ended, on the same port."""
        assert server.program.ended
        command = [f"--port={server.port}" if part == "--port=0" else part for part in server.program.command]
        again = Server(self.start(*command), server.address)
        eventually(lambda: programs.listens(server.port), "it listens", STARTING)
        return again

    def start_extra_servers(self) -> list[Server]:
        """Start one more server of each kind that this stack runs, without a worker, for a test to end."""
        extra = [self.start_embedded("--no-worker")]
        if len(self.servers) > 1:
            extra.append(self.start_uvicorn())
        return extra

    def start_worker(self) -> None:
        command = [*MANAGE, "mcp", "worker", "--settings", self.settings, *self.worker_options]
        self.worker_programs.append(self.start(*command, **self.of_workers))

    def start_supervisor(self, *options: str) -> Program:
        return self.start(*MANAGE, "mcp", "supervise", "--settings", self.settings, *options)

    def serve_from(self, *servers: Server) -> None:
        """Send requests to these servers in turn."""
        self.servers = list(servers)
        self._turns = cycle(servers)

    def restore_workers(self) -> None:
        """Restart separate workers that have ended, and wait until the expected number of workers consume.

        A server restarts its own worker.
        """
        for dead in [program for program in self.worker_programs if program.ended]:
            self.worker_programs.remove(dead)
            self.start_worker()
        eventually(lambda: len(self.workers()) == self.expected_workers, "all workers consume", within=STARTING)

    def workers(self) -> dict[str, int]:
        """Return the main process of each live worker by its boot id."""
        return {boot_id: pid for boot_id, pid in self.ask("workers").items() if programs.is_alive(pid)}

    def connect(self, server: Server | None = None) -> Connection:
        server = server or next(self._turns)
        connection = Connection(server.port, server.host)
        self._connections.append(connection)
        return connection

    def post(
        self,
        message: Mapping[str, Any],
        *,
        accept: str = BOTH,
        server: Server | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Connection:
        connection = self.connect(server)
        connection.post(message, accept=accept, headers=headers)
        return connection

    def call(self, tool: str, *, accept: str = BOTH, server: Server | None = None, **arguments: Any) -> Connection:
        """Call a tool on a new connection."""
        return self.post(wire.call(tool, **arguments), accept=accept, server=server)

    @contextmanager
    def limited(self, tool: str, **limits: float) -> Iterator[None]:
        """Change the tool's limits within the block, each by its column."""
        self.ask("limit", tool=tool, **limits)
        try:
            yield
        finally:
            self.ask("limit", tool=tool, **dict.fromkeys(limits))

    def ask(self, question: str, **details: Any) -> Any:
        return self.inspector.ask(question, **details)

    def row(self, call: Sent) -> Row:
        """Return the row of a call. Waits for it, because a client does not know when its row is stored."""
        row = eventually(lambda: self.inspector.row(jsonrpc_id=call.request_id), f"a row for {call.request_id}")
        assert row is not None
        return row

    def running(self, call: Connection, seconds: float = 0.0) -> Row:
        """Wait until a call has been running for `seconds`, and return its row."""

        def found() -> Row | None:
            row = self.row(call)
            assert not row.ended, f"it ended before: {row}"
            return row if row.status == "running" and row.running_for >= seconds else None

        row = eventually(found, f"{call.request_id} runs")
        assert row is not None
        return row

    def ended(self, call: Sent, within: float = 10.0) -> Row:
        """Wait until a call has ended, and return its row."""
        row = eventually(lambda: found if (found := self.row(call)).ended else None, f"{call.request_id} ends", within)
        assert row is not None
        return row

    def settle(self) -> None:
        """Close every connection, and wait until no request is open."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        eventually(lambda: not self.ask("open requests"), lambda: f"no open request, but {self.ask('open requests')}")

    def close(self) -> None:
        """Stop every process. Fails if a server or a worker ends with an error, or if any process is left."""
        for connection in self._connections:
            connection.close()
        try:
            for server in self.servers:
                server.stop()
            for worker in self.worker_programs:
                assert worker.stop() == 0, worker.output()
            if self.has_inspector:
                self.inspector.close()
            self.await_no_process()
        finally:
            programs.end_all(programs.processes_of(self.data))

    def abandon(self) -> None:
        """Kill every process, without checking how it ends."""
        for connection in self._connections:
            connection.close()
        programs.end_all(programs.processes_of(self.data))
        for program in self._programs:
            program.wait()
        if self.has_inspector:
            self.inspector.reap()

    def await_no_process(self, within: float = 5.0, *, spare: frozenset[int] = frozenset()) -> None:
        def left() -> list[str]:
            return [f"{pid} {programs.command_line(pid)}" for pid in programs.processes_of(self.data) - spare]

        eventually(lambda: not left(), lambda: f"no process is left, but {left()}", within)
