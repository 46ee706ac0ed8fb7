"""Runs PostgreSQL, Redis and RabbitMQ for one test, which can stop, kill, freeze and restart them on the same port.

Each engine uses the programs that Debian's packages install, in a folder of its own that is removed afterwards. The
engines on the machine's usual ports are not touched, because other processes use them.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from tests.support.site import programs
from tests.support.site.programs import Program
from tests.support.site.services import ServicesMissingError
from tests.support.waiting import eventually

STARTING: Final = 120.0
ENDING: Final = 30.0
LOCAL: Final = "127.0.0.1"
RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin")
"""Debian's wrappers in `PATH` are not used, because they run as another user without access to the node's cookie."""


class Engine:
    """One engine and its port, which stays the same when the engine is restarted."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        port: int,
        url: str,
        orderly: signal.Signals,
        is_ready: Callable[[int], bool] = programs.listens,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self.url = url
        self.log = log
        self._command = command
        self._orderly = orderly
        self._is_ready = is_ready
        self.environment = {**os.environ, **(environment or {})}
        """The environment of the engine's programs, including its administration tools."""
        self._program: Program | None = None

    def start(self) -> None:
        """Start the engine, and wait until it serves."""
        assert self.ended
        self._program = program = Program(self._command, self.environment, self.log, self.log.parent)

        def serves() -> bool:
            assert not program.ended, f"it ended by itself:\n{program.output()}"
            return self._is_ready(self.port)

        eventually(serves, f"{self._command[0]} serves", STARTING)

    def stop(self) -> None:
        """Stop the engine as its administrator would. It closes its connections and saves its persistent data."""
        for process in self._tree():
            if process.name() != "sh":
                process.send_signal(self._orderly)
                break
        self._await_end()

    def kill(self) -> None:
        """Send SIGKILL to all processes of the engine, as if the machine had lost power."""
        # Freeze the processes first, so that none of them starts another or notices that one has died.
        self.freeze()
        for process in self._tree():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._await_end()

    def freeze(self) -> None:
        """Suspend all processes. Connections stay open without answers, as if the network had lost the engine."""
        for process in self._tree():
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        for process in self._tree():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    @property
    def ended(self) -> bool:
        return self._program is None or self._program.ended

    def end(self) -> None:
        if not self.ended:
            self.kill()

    def _tree(self) -> list[psutil.Process]:
        assert self._program is not None
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._program.pid)
            return [root, *root.children(recursive=True)]
        return []

    def _await_end(self) -> None:
        assert self._program is not None
        self._program.wait(ENDING)
        eventually(lambda: not programs.listens(self.port), f"nothing listens on port {self.port}", ENDING)


@contextmanager
def postgresql() -> Iterator[Engine]:
    """Run a cluster with one empty database, which `url` names. Raises `ServicesMissingError`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        raise ServicesMissingError("PostgreSQL is not installed")
    with _folder() as folder:
        as_owner: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            as_owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        data = folder / "data"
        make = [*as_owner, str(found[-1] / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        port = _free_port()
        options = {
            "listen_addresses": LOCAL,
            "port": port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 200,
        }
        command = [*as_owner, str(found[-1] / "postgres"), "-D", str(data)]
        command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        engine = Engine(
            command,
            folder / "log",
            port=port,
            url=f"postgresql://postgres@{LOCAL}:{port}/postgres",
            orderly=signal.SIGINT,  # a fast shutdown: sessions are ended, not waited for
            is_ready=_takes_queries,
        )
        with _running(engine):
            yield engine


@contextmanager
def redis() -> Iterator[Engine]:
    """Run a Redis that stores nothing on disk, so that stopping it loses its data. Raises `ServicesMissingError`."""
    if (program := shutil.which("redis-server")) is None:
        raise ServicesMissingError("Redis is not installed")
    with _folder() as folder:
        port = _free_port()
        command = [
            program,
            "--bind",
            LOCAL,
            "--port",
            str(port),
            "--dir",
            str(folder),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        engine = Engine(command, folder / "log", port=port, url=f"redis://{LOCAL}:{port}/0", orderly=signal.SIGTERM)
        with _running(engine):
            yield engine


@contextmanager
def rabbitmq() -> Iterator[Engine]:
    """Run a RabbitMQ node, whose durable queues survive a restart. Raises `ServicesMissingError`."""
    program = RABBITMQ / "rabbitmq-server"
    if not program.exists():
        raise ServicesMissingError("RabbitMQ is not installed")
    with _folder() as folder:
        port = _free_port()
        environment = {
            "HOME": str(folder),  # the cookie is created here
            "RABBITMQ_NODENAME": f"mcp-{secrets.token_hex(4)}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOCAL,
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }
        engine = Engine(
            [str(program)],
            folder / "log",
            port=port,
            url=f"amqp://guest:guest@{LOCAL}:{port}//",
            orderly=signal.SIGTERM,
            environment=environment,
        )
        with _running(engine):
            yield engine


def queues(broker: Engine) -> dict[str, int]:
    """Return the number of messages in each queue of a RabbitMQ node, unacknowledged ones included."""
    command = [str(RABBITMQ / "rabbitmqctl"), "--quiet", "list_queues", "--no-table-headers", "name", "messages"]
    done = subprocess.run(command, env=broker.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"RabbitMQ does not say what queues it has: {done.stderr[-1000:]}"
    rows = [line.rsplit("\t", 1) for line in done.stdout.splitlines()]
    return {name: int(messages) for name, messages in rows}


@contextmanager
def _running(engine: Engine) -> Iterator[None]:
    with ExitStack() as exits:
        exits.callback(engine.end)
        engine.start()
        yield


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder that another user can own. Only the user who runs pytest can enter pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="mcp-engine-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        port: int = probe.getsockname()[1]
        return port


def _takes_queries(port: int) -> bool:
    import psycopg

    with suppress(psycopg.OperationalError):
        psycopg.connect(f"postgresql://postgres@{LOCAL}:{port}/postgres", connect_timeout=2).close()
        return True
    return False
