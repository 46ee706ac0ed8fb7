"""The processes that are measured: the real server and its worker, on engines of this run's own.

Owns their command lines, their environment, their folder and their end. Refuses to leave one behind: whatever carries
this run's data folder in its environment is stopped with the run.
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
"""The role of the first server process; of others it is the beginning."""
SETTINGS = "tests.everything.settings"
PREPARATION_SECONDS = 300.0
STOP_SECONDS = 20.0
LOG_TAIL_CHARS = 3000


class StackError(NoMeasurementError):
    """The site could not be started; the text holds what its processes said."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run on. `stack` embedded or redis, `server` daphne or uvicorn; `postgresql`: a URL instead of SQLite."""

    stack: str
    server: str
    redis: str
    postgresql: str | None
    settings: str = SETTINGS
    servers: int = 1
    """Server processes, each on a port of its own."""
    worker_options: tuple[str, ...] = ()
    """Of `mcp worker`; none: its defaults."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What its processes have in theirs besides."""

    @property
    def one_command(self) -> bool:
        """Whether `mcp serve` alone starts all of it."""
        alone = self.servers == 1 and not self.worker_options
        return alone and self.stack == "embedded" and self.server == "daphne" and self.postgresql is None

    @property
    def worker(self) -> tuple[str, ...]:
        """The command that starts a worker."""
        return ("manage.py", "mcp", "worker", "--settings", self.settings, *self.worker_options)


@dataclass(slots=True)
class Stack:
    """A site that runs."""

    folder: Path
    ports: Sequence[int]
    """Of its server processes."""
    environment: Mapping[str, str]
    worker: tuple[str, ...] = ()
    """The command that starts one, where there is one."""
    python: str = sys.executable
    """The interpreter that runs it all."""
    commands: list[str] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def servers(self) -> list[psutil.Process]:
        """The server processes, without what they started."""
        return [psutil.Process(process.pid) for role, process in self.processes.items() if role.startswith(SERVER)]

    def start(self, role: str, *arguments: str) -> None:
        """Start a Python process; its output goes into `<role>.log` of the folder."""
        self.commands.append(" ".join(("python", *arguments)))
        with (self.folder / f"{role}.log").open("wb") as log:
            self.processes[role] = subprocess.Popen(
                [self.python, *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a terminal's Ctrl-C is for the benchmark, which stops them in their order
            )

    def run(self, *arguments: str, seconds: float) -> str:
        """Run a Python process to its end; its standard output. Raises StackError."""
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
        """Raise StackError if a process has ended."""
        for role, process in self.processes.items():
            if process.poll() is not None:
                raise StackError(f"The {role} ended with status {process.returncode}.\n{self.log_tails()}")

    def log_tails(self) -> str:
        """The end of what each process has said."""
        logs = {role: (self.folder / f"{role}.log").read_text(errors="replace") for role in self.processes}
        return "\n".join(f"{role} log: {log[-LOG_TAIL_CHARS:]}" for role, log in logs.items())

    def kill_worker(self) -> None:
        """SIGKILL to the worker's main process, and to nothing that it started."""
        self.worker_process().kill()

    def restore_worker(self) -> None:
        """Start one anew, where the server does not."""
        if "worker" in self.processes:
            self.processes["worker"].wait()
            self.start("worker", *self.worker)

    def worker_process(self) -> psutil.Process:
        """The worker's main process."""
        if "worker" in self.processes:
            return psutil.Process(self.processes["worker"].pid)
        children = psutil.Process(self.processes["server"].pid).children()
        return next(child for child in children if "worker" in _command(child))

    def cpu_seconds(self) -> tuple[float, float]:
        """Processor time so far: the server's, and everything else's, which is the worker's."""
        server = psutil.Process(self.processes["server"].pid)
        times = server.cpu_times()
        own = float(times.user + times.system)
        return own, cpu_seconds(self._marked()) - own

    def stop(self) -> list[str]:
        """Stop the server, then the worker; what did not end by itself is killed and named."""
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
        """The living processes with this run's data folder in their environment."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get("MCPSITE_DATA") == self.environment["MCPSITE_DATA"]:
                    found.append(process)
        return found


@contextmanager
def running(choice: Choice) -> Iterator[Stack]:
    """A site on an empty folder, until the block ends. Raises NoEngineError, StackError; also for what outlived it."""
    with on_engines(choice) as stack, started(stack, choice):
        yield stack


@contextmanager
def on_engines(choice: Choice) -> Iterator[Stack]:
    """A site on an empty folder and empty databases, until the block ends: nothing of it runs. Raises NoEngineError."""
    with ExitStack() as borrowed:
        folder = borrowed.enter_context(own_folder())
        environment = own_environment(folder) | {"DJANGO_SETTINGS_MODULE": choice.settings, **choice.environment}
        # A debugging site keeps every query it makes.
        environment |= {"MCPSITE_DEBUG": "0", "MCPSITE_HOSTS": "127.0.0.1 localhost"}
        if choice.stack == "redis":
            environment["MCPSITE_BROKER"] = borrowed.enter_context(engines.redis_database(choice.redis))
        if choice.postgresql:
            environment["MCPSITE_DATABASE"] = borrowed.enter_context(engines.postgresql_database(choice.postgresql))
        yield Stack(folder, [free_port() for _ in range(choice.servers)], environment, choice.worker)


@contextmanager
def started(stack: Stack, choice: Choice) -> Iterator[Stack]:
    """The same, running until the block ends. Raises StackError; also for what outlived it."""
    with stopped(stack):
        _start(stack, choice)
        yield stack


@contextmanager
def own_folder() -> Iterator[Path]:
    """An empty folder until the block ends."""
    with tempfile.TemporaryDirectory(prefix="mcp-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def own_environment(folder: Path) -> dict[str, str]:
    """This process's environment without what it says of another site, marked by the folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCPSITE_")}
    return kept | {"MCPSITE_DATA": str(folder / "data")}


@contextmanager
def stopped(stack: Stack, *, in_time: bool = True) -> Iterator[None]:
    """Nothing is left after the block. Raises StackError for what had to be killed, if it was to stop `in_time`."""
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
    """Make its tables. Raises StackError."""
    for alias in ("default",) if choice.postgresql else ("default", "mcp"):
        stack.run("manage.py", "migrate", "--database", alias, seconds=PREPARATION_SECONDS)


def uvicorn_options(port: int) -> tuple[str, ...]:
    """As `docs/deployment.md` has it, without a line for each request."""
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
