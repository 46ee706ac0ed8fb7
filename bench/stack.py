"""Starts and stops the measured processes: the real server and its worker, on databases of this run alone.

No process is left behind: every process with this run's data folder in its environment is stopped with the run.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench import engines
from bench.command import NoMeasurementError
from bench.machine import ROOT, cpu_seconds

HOST = "127.0.0.1"
SERVER = "server"
"""The role of the first server process. The roles of other server processes begin with it."""
SETTINGS = "tests.everything.settings"
PREPARATION_SECONDS = 300.0
STOP_SECONDS = 20.0
LOG_TAIL_CHARS = 3000


class StackError(NoMeasurementError):
    """The site could not be started. The message contains the ends of its logs."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The options of a site.

    `stack` is embedded or redis, `server` is daphne or uvicorn. `postgresql` is a URL, or `None` for SQLite.
    """

    stack: str
    server: str
    redis: str
    postgresql: str | None
    settings: str = SETTINGS
    servers: int = 1
    """The number of server processes. Each has its own port."""
    worker_options: tuple[str, ...] = ()
    """Options for `mcp worker`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables of its processes."""

    @property
    def one_command(self) -> bool:
        """Whether `mcp serve` alone starts the server and the worker."""
        alone = self.servers == 1 and not self.worker_options
        return alone and self.stack == "embedded" and self.server == "daphne" and self.postgresql is None

    @property
    def worker(self) -> tuple[str, ...]:
        """The command that starts a worker."""
        return ("manage.py", "mcp", "worker", "--settings", self.settings, *self.worker_options)


@dataclass(slots=True)
class Stack:
    """A site, with its processes and its folder."""

    folder: Path
    ports: Sequence[int]
    """The ports of its server processes."""
    environment: Mapping[str, str]
    worker: tuple[str, ...] = ()
    """The command that starts a worker; empty if the site has none."""
    python: str = sys.executable
    """The Python interpreter of all processes."""
    commands: list[str] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def servers(self) -> list[psutil.Process]:
        """The server processes, without their children."""
        return [psutil.Process(process.pid) for role, process in self.processes.items() if role.startswith(SERVER)]

    def start(self, role: str, *arguments: str) -> None:
        """Start a Python process whose output goes to `<role>.log` in the folder."""
        self.commands.append(" ".join(("python", *arguments)))
        with (self.folder / f"{role}.log").open("wb") as log:
            self.processes[role] = subprocess.Popen(
                [self.python, *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C reaches only the benchmark, which stops them in order
            )

    def run(self, *arguments: str, seconds: float) -> str:
        """Run a Python process to its end and return its standard output. Raises `StackError`."""
        command = [self.python, *arguments]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=True, timeout=seconds
            )
        except subprocess.CalledProcessError as error:
            raise StackError(f"{' '.join(arguments)} failed: {error.stderr[-LOG_TAIL_CHARS:]}") from error
        except subprocess.TimeoutExpired as error:
            raise StackError(f"{' '.join(arguments)} took longer than {seconds:g} s.") from error
        return done.stdout

    def check(self) -> None:
        """Raise `StackError` if a process has ended."""
        for role, process in self.processes.items():
            if process.poll() is not None:
                raise StackError(f"The {role} ended with status {process.returncode}.\n{self.log_tails()}")

    def log_tails(self) -> str:
        """Return the last part of each process's log."""
        logs = {role: (self.folder / f"{role}.log").read_text(errors="replace") for role in self.processes}
        return "\n".join(f"{role} log: {log[-LOG_TAIL_CHARS:]}" for role, log in logs.items())

    def kill_worker(self) -> None:
        """Send SIGKILL to the worker's main process, but not to its children."""
        self.worker_process().kill()

    def restore_worker(self) -> None:
        """Start a new worker, unless the server itself starts workers."""
        if "worker" in self.processes:
            self.processes["worker"].wait()
            self.start("worker", *self.worker)

    def worker_process(self) -> psutil.Process:
        """Return the worker's main process."""
        if "worker" in self.processes:
            return psutil.Process(self.processes["worker"].pid)
        children = psutil.Process(self.processes["server"].pid).children()
        return next(child for child in children if "worker" in _command(child))

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the processor time so far of the first server process, and of all other processes of the site."""
        server = psutil.Process(self.processes["server"].pid)
        times = server.cpu_times()
        own = float(times.user + times.system)
        return own, cpu_seconds(self._marked()) - own

    def stop(self) -> list[str]:
        """Stop the server, then the worker. Kill the processes that did not end, and return their names."""
        for role in sorted(self.processes):  # server before worker
            self._terminate(self.processes[role])
        left = self._marked()
        names = [f"{process.pid} {' '.join(_command(process))[:120]}" for process in left]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=STOP_SECONDS)
        return names

    def _terminate(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)

    def _marked(self) -> list[psutil.Process]:
        """Return the running processes that have this run's data folder in their environment."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get("MCPSITE_DATA") == self.environment["MCPSITE_DATA"]:
                    found.append(process)
        return found


@contextmanager
def running(choice: Choice) -> Iterator[Stack]:
    """Run a site on an empty folder and empty databases until the block ends.

    Raises `NoEngineError` and `StackError`, also if a process did not end in time.
    """
    with on_engines(choice) as stack, started(stack, choice):
        yield stack


@contextmanager
def on_engines(choice: Choice) -> Iterator[Stack]:
    """Yield a site on an empty folder and empty databases. None of its processes is started. Raises `NoEngineError`."""
    with ExitStack() as borrowed:
        folder = borrowed.enter_context(own_folder())
        environment = own_environment(folder) | {"DJANGO_SETTINGS_MODULE": choice.settings, **choice.environment}
        # With DEBUG, Django keeps every query in memory.
        environment |= {"MCPSITE_DEBUG": "0", "MCPSITE_HOSTS": "127.0.0.1 localhost"}
        if choice.stack == "redis":
            environment["MCPSITE_BROKER"] = borrowed.enter_context(engines.redis_database(choice.redis))
        if choice.postgresql:
            environment["MCPSITE_DATABASE"] = borrowed.enter_context(engines.postgresql_database(choice.postgresql))
        yield Stack(folder, [free_port() for _ in range(choice.servers)], environment, choice.worker)


@contextmanager
def started(stack: Stack, choice: Choice) -> Iterator[Stack]:
    """Run the processes of a site until the block ends. Raises `StackError`, also if a process did not end in time."""
    with stopped(stack):
        _start(stack, choice)
        yield stack


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield an empty folder, which is deleted when the block ends."""
    with tempfile.TemporaryDirectory(prefix="mcp-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def own_environment(folder: Path) -> dict[str, str]:
    """Return this process's environment without settings of other sites, and with the data folder of this run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCPSITE_")}
    return kept | {"MCPSITE_DATA": str(folder / "data")}


@contextmanager
def stopped(stack: Stack, *, in_time: bool = True) -> Iterator[None]:
    """Stop all processes of the site after the block.

    With `in_time`, raises `StackError` if a process had to be killed.
    """
    left: list[str] = []
    try:
        yield
    finally:
        left = stack.stop()
    if left and in_time:
        raise StackError("These processes outlived the site and were killed:\n" + "\n".join(left))


def _start(stack: Stack, choice: Choice) -> None:
    serve = ("manage.py", "mcp", "serve", "--settings", choice.settings, "--port")
    if choice.one_command:
        stack.start(SERVER, *serve, str(stack.port))
        return
    prepare(stack, choice)
    stack.start("worker", *stack.worker)
    for number, port in enumerate(stack.ports):
        role = f"{SERVER}-{number}" if number else SERVER
        if choice.server == "daphne":
            stack.start(role, *serve, str(port), "--no-worker")
        else:
            stack.start(role, "-m", "uvicorn", "mcpsite.asgi:application", *uvicorn_options(port))


def prepare(stack: Stack, choice: Choice) -> None:
    """Create the tables of a site. Raises `StackError`."""
    for alias in ("default",) if choice.postgresql else ("default", "mcp"):
        stack.run("manage.py", "migrate", "--database", alias, seconds=PREPARATION_SECONDS)


def uvicorn_options(port: int) -> tuple[str, ...]:
    """Return the options from `docs/how-to/deployment.md`, without a log line for each request."""
    quiet = ("--log-level", "warning", "--no-access-log")
    return ("--host", HOST, "--port", str(port), *quiet, "--timeout-graceful-shutdown", "5")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return list(process.cmdline())
    return []
