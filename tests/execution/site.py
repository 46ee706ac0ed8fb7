"""A site without a server: real `mcp worker` processes, and a driver process beside them."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import psutil

from tests.execution import driver, task_ends
from tests.support import sqlite_locks, waiting
from tests.support.site.services import own_services

ROOT = Path(__file__).parents[2]
MANAGE = (sys.executable, "manage.py")
SETTINGS = "tests.execution.settings"
PATIENCE = 30.0
eventually = partial(waiting.eventually, within=PATIENCE)


def _forkserver() -> ForkServerContext:
    """Drivers are forked from a process that has already loaded what takes long to load."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["celery.app", "channels.layers", "django.contrib.admin", "jsonschema", "mcp_types"])
    return context


class Worker:
    """A worker, with its main process and its log."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self.process.pid

    def children(self) -> set[int]:
        """The processes of the worker's pool."""
        return {child.pid for child in psutil.Process(self.pid).children()}

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


class Site:
    """Workers on a data folder of their own. The site is embedded unless `engines` names others."""

    def __init__(self, data: Path, engines: dict[str, str], settings: str = SETTINGS) -> None:
        self.data = data
        self.settings = settings
        self.mcp_alias = "default" if "MCPSITE_DATABASE" in engines else "mcp"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MCPSITE_")},
            **engines,
            "DJANGO_SETTINGS_MODULE": settings,
            "MCPSITE_DATA": str(data),
        }
        self.workers: list[Worker] = []
        self.patience = 300.0
        self._driver = ProcessPoolExecutor(
            1, mp_context=_forkserver(), initializer=driver.prepare, initargs=(self.environment,)
        )

    @classmethod
    @contextmanager
    def opened(cls, data: Path, engines: dict[str, str], settings: str = SETTINGS) -> Iterator["Site"]:
        site = cls(data, engines, settings)
        try:
            if engines or not (data / "site.sqlite3").exists():
                site.ask(driver.migrate)
            yield site
        finally:
            site.close()

    def ask(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self._driver.submit(function, *args, **options).result(self.patience)

    def start_worker(self, *, concurrency: int = 2, pool: str = "prefork", **environment: str) -> Worker:
        """Start `mcp worker`."""
        command = [
            sys.executable,
            "manage.py",
            "mcp",
            "worker",
            f"--settings={self.settings}",
            f"--concurrency={concurrency}",
            f"--pool={pool}",
            f"--parent-pid={os.getpid()}",  # so that it ends with the tests, even if they are killed
        ]
        return self._start(command, environment)

    def start_celery_worker(
        self, name: str = "plain@%h", *, concurrency: int = 2, queue: str = "mcp", **environment: str
    ) -> Worker:
        """Start Celery's own worker command. Wait for it only if it consumes the tools' queue."""
        command = [sys.executable, "-m", "celery", "-A", "mcpsite", "worker", "-n", name, "-Q", queue]
        command += [f"--concurrency={concurrency}", "--loglevel=WARNING"]
        return self._start(command, environment, registers=queue == "mcp")

    def _start(self, command: list[str], environment: dict[str, str], *, registers: bool = True) -> Worker:
        known = {pid for _, pid in self.ask(driver.workers)}
        log = self.data / f"worker{len(self.workers)}.log"
        worker = Worker(command, {**self.environment, **environment}, log)
        self.workers.append(worker)

        def ready() -> bool:
            assert worker.process.poll() is None, worker.log.read_text()
            if not registers:
                return "ready" in worker.log.read_text()
            return bool({pid for _, pid in self.ask(driver.workers)} - known)

        eventually(ready, "the worker's start")
        return worker

    def submit(self, tool: str, arguments: dict[str, Any] | None = None, **changes: Any) -> str:
        return str(self.ask(driver.submit, tool, arguments or {}, **changes))

    def begin(self, tool: str, arguments: dict[str, Any] | None = None, **changes: Any) -> str:
        """Submit a call and wait until it runs."""
        request_id = self.submit(tool, arguments, **changes)
        self.ask(driver.running, request_id)
        return request_id

    def cancel(self, request_id: str) -> str:
        return str(self.ask(driver.cancel, request_id))

    def ended(self, request_id: str, within: float = 20.0) -> dict[str, Any]:
        found: dict[str, Any] = self.ask(driver.ended, request_id, within)
        return found

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        """Call a tool and wait for its end."""
        return self.ended(self.submit(tool, arguments, **changes))

    def task_ends(self, request_id: str) -> list[str]:
        """Return the end states of a request's Celery tasks, one for each message that was not dropped."""
        ends = task_ends.path(self.data)
        lines = [line.split() for line in ends.read_text().splitlines()] if ends.exists() else []
        return [state for task_id, state in lines if task_id == request_id]

    def text(self, tool: str, arguments: dict[str, Any] | None = None) -> str:
        """Return the text of a tool's result."""
        ended = self.call(tool, arguments)
        assert ended["status"] == "completed", ended
        return str(ended["result"]["content"][0]["text"])

    def processes(self) -> list[psutil.Process]:
        """Return every process of this site except the driver and its helper."""
        found = []
        mine = {child.pid for child in psutil.Process().children()}
        for process in psutil.process_iter():
            try:
                if process.environ().get("MCPSITE_DATA") == str(self.data) and process.pid not in mine | {os.getpid()}:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return [*found, *(psutil.Process(w.pid) for w in self.workers if w.process.poll() is None)]

    def stand_still(self, *pids: int) -> None:
        sqlite_locks.stand_still(self.data / "mcp.sqlite3", *pids)

    def close(self) -> None:
        """Kill everything. Tests of orderly shutdown wait for the workers before this."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
        self._driver.shutdown()
        for process in self.processes():
            process.kill()


@contextmanager
def engines_of(kind: str) -> Iterator[dict[str, str]]:
    """The environment of a site: `embedded`, `engines` (PostgreSQL and Redis of its own), or `redis` alone."""
    if kind == "embedded":
        yield {}
        return
    with own_services() as services:
        yield services if kind == "engines" else {"MCPSITE_BROKER": services["MCPSITE_BROKER"]}


def begin_code(site: Site, code: str, tool: str = "python", **changes: Any) -> str:
    """Run code as a tool and wait until it has created the file `READY`. Return the request's id."""
    ready = site.data / f"ready-{time.monotonic_ns()}"
    source = f"READY = {str(ready)!r}\n{textwrap.dedent(code)}"
    request_id = site.submit(tool, {"code": source}, **changes)
    eventually(ready.exists, f"the tool's start ({site.ask(driver.row, request_id)})")
    return request_id


def stop(site: Site, code: str, tool: str = "python", **changes: Any) -> dict[str, Any]:
    """Run code as a tool, cancel it once it has created the file `READY`, and return the ended row."""
    request_id = begin_code(site, code, tool, **changes)
    assert site.cancel(request_id) == "accepted"
    return site.ended(request_id)
