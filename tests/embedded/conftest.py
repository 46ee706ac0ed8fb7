"""A broker folder, connections to it, and real workers on it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from celery import Celery
from kombu import Connection

from mcp_app.embedded.broker import register
from tests.support import waiting

ROOT = Path(__file__).parents[2]
eventually = partial(waiting.eventually, within=20.0)

register()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "broker"


@pytest.fixture
def connect(folder: Path) -> Iterator[Callable[[], Connection]]:
    """Open connections to the folder. All are closed after the test."""
    opened: list[Connection] = []

    def open_one() -> Connection:
        opened.append(Connection("mcpfs://", transport_options={"folder": str(folder)}))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def app(folder: Path) -> Iterator[Celery]:
    """The publishing side's Celery app."""
    app = Celery("embedded", broker="mcpfs://", set_as_current=False)
    app.conf.update(broker_transport_options={"folder": str(folder)}, task_ignore_result=True)
    yield app
    app.close()


class Worker:
    """A `celery worker` process with two prefork slots."""

    def __init__(self, folder: Path, log: Path, *options: str) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "celery", "-A", "tests.embedded.celery_app", "worker"),
                    *("--concurrency=2", "--loglevel=info", "--hostname=w1@test", *options),
                ],
                cwd=ROOT,
                env={**os.environ, "BROKER_FOLDER": str(folder)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        self.wait_logged("ready.")

    def wait_logged(self, text: str) -> None:
        eventually(lambda: text in self.log.read_text() or self.process.poll() is not None)
        assert text in self.log.read_text()

    def stop(self, number: signal.Signals) -> int:
        """Signal the worker, wait for its end and return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
            # As long as it is not reaped, its process group keeps its number. A pool process that was forked right
            # before the kill has not set its death signal yet, and would survive.
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


@pytest.fixture
def start_worker(folder: Path, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Start workers on the folder and wait until they consume. Workers that still run after the test are killed."""
    workers: list[Worker] = []

    def start(*options: str) -> Worker:
        worker = Worker(folder, tmp_path / f"worker{len(workers)}.log", *options)
        workers.append(worker)
        worker.wait_ready()
        return worker

    yield start
    for worker in workers:
        worker.stop(signal.SIGKILL)
