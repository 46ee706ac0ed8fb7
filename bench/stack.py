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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench import engines
from bench.machine import ROOT, cpu_seconds

HOST = "127.0.0.1"
SETTINGS = "tests.everything.settings"
WORKER = ("manage.py", "mcp", "worker", "--settings", SETTINGS)
PREPARATION_SECONDS = 60.0
STOP_SECONDS = 20.0
LOG_TAIL_CHARS = 3000


class StackError(Exception):
    """The site could not be started; the text holds what its processes said."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run on. `stack` embedded or redis, `server` daphne or uvicorn; `postgresql`: a URL instead of SQLite."""

    stack: str
    server: str
    redis: str
    postgresql: str | None

    @property
    def one_command(self) -> bool:
        """Whether `mcp serve` alone starts all of it."""
        return self.stack == "embedded" and self.server == "daphne" and self.postgresql is None


@dataclass(slots=True)
class Stack:
    """A site that runs."""

    folder: Path
    port: int
    environment: Mapping[str, str]
    commands: list[str] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, role: str, *arguments: str) -> None:
        """Start a Python process; its output goes into `<role>.log` of the folder."""
        self.commands.append(" ".join(("python", *arguments)))
        with (self.folder / f"{role}.log").open("wb") as log:
            self.processes[role] = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a terminal's Ctrl-C is for the benchmark, which stops them in their order
            )

    def run(self, *arguments: str, seconds: float) -> str:
        """Run a Python process to its end; its standard output. Raises StackError."""
        command = [sys.executable, *arguments]
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
        self._worker().kill()

    def restore_worker(self) -> None:
        """Start one anew, where the server does not."""
        if "worker" in self.processes:
            self.processes["worker"].wait()
            self.start("worker", *WORKER)

    def _worker(self) -> psutil.Process:
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
    with ExitStack() as borrowed:
        folder = Path(
            borrowed.enter_context(tempfile.TemporaryDirectory(prefix="mcp-bench-", ignore_cleanup_errors=True))
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MCPSITE_")}
        environment |= {"MCPSITE_DATA": str(folder / "data"), "DJANGO_SETTINGS_MODULE": SETTINGS}
        # A debugging site keeps every query it makes.
        environment |= {"MCPSITE_DEBUG": "0", "MCPSITE_HOSTS": "127.0.0.1 localhost"}
        if choice.stack == "redis":
            environment["MCPSITE_BROKER"] = borrowed.enter_context(engines.redis_database(choice.redis))
        if choice.postgresql:
            environment["MCPSITE_DATABASE"] = borrowed.enter_context(engines.postgresql_database(choice.postgresql))
        stack = Stack(folder, _free_port(), environment)
        left: list[str] = []
        try:
            _start(stack, choice)
            yield stack
        finally:
            left = stack.stop()
        if left:
            raise StackError("These processes outlived the site and were killed:\n" + "\n".join(left))


def _start(stack: Stack, choice: Choice) -> None:
    serve = ("manage.py", "mcp", "serve", "--settings", SETTINGS, "--port", str(stack.port))
    if choice.one_command:
        stack.start("server", *serve)
        return
    for alias in ("default",) if choice.postgresql else ("default", "mcp"):
        stack.run("manage.py", "migrate", "--database", alias, seconds=PREPARATION_SECONDS)
    stack.start("worker", *WORKER)
    if choice.server == "daphne":
        stack.start("server", *serve, "--no-worker")
    else:
        options = ("--host", HOST, "--port", str(stack.port), "--log-level", "warning", "--no-access-log")
        stack.start("server", "-m", "uvicorn", "mcpsite.asgi:application", *options)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return list(process.cmdline())
    return []
