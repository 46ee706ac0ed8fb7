"""The site of a chaos run: several servers and workers, which are restarted when they end, on engines of its own.

Its processes have their own folder for temporary files, so that files that are left behind are found.
"""

import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.chaos import journal
from tests.chaos.kept import Keeper, Kept
from tests.support.site import own_engines, programs
from tests.support.site.inspector import ROOT
from tests.support.site.own_engines import Engine
from tests.support.site.stack import MANAGE, Stack
from tests.support.site.wire import Connection
from tests.support.waiting import eventually

SETTINGS: Final = "tests.chaos.settings"
SLOTS: Final = 3
"""The number of slots of each worker."""
STARTING: Final = 90.0
STOPPING: Final = 40.0
ADMINISTRATOR: Final = "warden"


class Site(Stack):
    """One running site and its engines. `database` and `broker` are `None` if the site is embedded."""

    def __init__(self, kind: str, data: Path, engines: dict[str, Engine]) -> None:
        super().__init__(data, _environment(engines), workers=2, settings=SETTINGS)
        self.kind = kind
        self.database = engines.get("MCPSITE_DATABASE")
        self.broker = engines.get("MCPSITE_BROKER")
        self.engines = [engine for engine in (self.database, self.broker) if engine is not None]
        self.temporary = data / "tmp"
        self.temporary.mkdir()
        self.journal = data / journal.FOLDER
        self.journal.mkdir()
        self.password = secrets.token_urlsafe(12)
        self.environment |= {"TMPDIR": str(self.temporary), "PYTHONWARNINGS": "default"}
        self.kept_servers: list[Kept] = []
        self.kept_workers: list[Kept] = []
        self.ports: list[int] = []

    @property
    def kept(self) -> list[Kept]:
        return [*self.kept_servers, *self.kept_workers]

    @property
    def all_slots(self) -> int:
        return SLOTS * 2

    def begin(self) -> None:
        """Start everything, and wait until it serves."""
        if self.database is not None:
            migrated = self.start(*MANAGE, "migrate", "--settings", SETTINGS, "--verbosity=0")
            assert migrated.wait(STARTING) == 0, migrated.output()
        own = f"--concurrency={SLOTS}" if self.database is None else "--no-worker"
        self._keep_server("serve 0", *MANAGE, "mcp", "serve", "--settings", SETTINGS, own)
        if self.database is None:
            self._await_ports()  # the first server creates the tables
            self._keep_server("serve 1", *MANAGE, "mcp", "serve", "--settings", SETTINGS, "--no-worker")
        else:
            self._keep_server("uvicorn 1", sys.executable, "-m", "uvicorn", "mcpsite.asgi:application")
        for number in range(2 if self.database is not None else 1):
            command = (*MANAGE, "mcp", "worker", "--settings", SETTINGS, f"--concurrency={SLOTS}")
            self.kept_workers.append(Kept(f"worker {number}", lambda command=command: self.start(*command)))  # type: ignore[misc]
        self.await_service()
        user = {"name": ADMINISTRATOR, "password": self.password}
        self.ask("make user", **user, permissions=["view_request", "cancel_request"])

    def _await_ports(self) -> None:
        for port in self.ports:
            eventually(lambda port=port: programs.listens(port), "it listens", STARTING)  # type: ignore[misc]

    def _keep_server(self, name: str, *command: str) -> None:
        self.ports.append(port := _free_port())
        self.kept_servers.append(Kept(name, lambda: self.start(*command, f"--port={port}"), port))

    def await_service(self) -> None:
        """Wait until every server listens and every worker consumes."""
        self._await_ports()
        eventually(lambda: len(self.workers()) == self.expected_workers, "all workers consume", STARTING)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Restart the programs that end, within the block."""
        self.forget_inspector()  # the faults would cut its database connection, too
        keeper = Keeper(self.kept)
        try:
            yield
        finally:
            keeper.stop()

    def troubled(self, server: int, since: float, until: float) -> bool:
        """Return whether the server failed to serve during any part of that time."""
        return self.kept_servers[server].troubled(since, until)

    @property
    def killed_workers(self) -> int:
        lives = [life for kept in self.kept_workers for life in kept.lives]
        return sum(life.status == -signal.SIGKILL for life in lives)

    def forget_inspector(self) -> None:
        """Kill the process that reads rows. The next question starts another one."""
        if self.has_inspector:
            programs.end_all({self.inspector.pid})
            self.inspector.reap()
            del self.inspector

    def to(self, server: int) -> Connection:
        """Return a connection to one of the servers, by its number. Raises `OSError`."""
        return Connection(self.ports[server % len(self.ports)])

    def worker_mains(self) -> list[int]:
        """Return the main processes of the workers, including the workers of servers."""
        mains = [kept.program.pid for kept in self.kept_workers]
        for kept in self.kept_servers:
            mains += [each.pid for each in kept.family()[1:] if "mcp worker" in programs.command_line(each.pid)][:1]
        return mains

    def manage(self, *arguments: str, within: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command of `manage.py mcp` to its end."""
        command = [*MANAGE, "mcp", *arguments, "--settings", SETTINGS]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=within, check=False
        )

    def stop(self) -> list[str]:
        """End all programs with SIGTERM, and return a line for each program that did not end properly."""
        self.forget_inspector()
        wrong = []
        for kept in self.kept:
            kept.program.signal(signal.SIGTERM)
        for kept in self.kept:
            try:
                status = kept.program.wait(STOPPING)
            except subprocess.TimeoutExpired:
                wrong.append(f"{kept.name} (process {kept.program.pid}) does not end by SIGTERM in {STOPPING:g} s")
                continue
            if status not in (0, -signal.SIGTERM):
                wrong.append(f"{kept.name} ended with status {status}")
        return wrong

    def clear(self) -> None:
        """Kill all processes that are left, without checking how they end."""
        for engine in self.engines:
            engine.thaw()
        programs.end_all(programs.processes_of(self.data))
        for program in self._programs:
            program.wait()
        self.forget_inspector()


@contextmanager
def opened(kind: str, data: Path) -> Iterator[Site]:
    """Yield a site of this kind that serves. Afterwards its processes are killed, even after an error."""
    with ExitStack() as exits:
        engines: dict[str, Engine] = {}
        if kind != "embedded":
            engines["MCPSITE_DATABASE"] = exits.enter_context(own_engines.postgresql())
            broker = own_engines.redis if kind == "redis" else own_engines.rabbitmq
            engines["MCPSITE_BROKER"] = exits.enter_context(broker())
        if kind == "redis":
            engines["MCPSITE_CHANNELS"] = engines["MCPSITE_BROKER"]
        site = Site(kind, data, engines)
        exits.callback(site.clear)
        site.begin()
        yield site


def _environment(engines: dict[str, Engine]) -> dict[str, str]:
    return {name: engine.url for name, engine in engines.items()}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
