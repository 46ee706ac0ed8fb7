"""`python -m bench.celery_floor`: the bare Celery round trip, from publishing an empty task to its stored result.

The benchmark runs it in the environment of the site that it measures. It prints one JSON object: `round_trips`, in
seconds, with one outstanding task at a time, and `tasks_per_second` with several.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django

from bench import floor_worker
from bench.floor_app import app
from bench.floor_worker import CONCURRENCY, INBOX, QUEUE, SETTINGS
from bench.machine import ROOT

FIRST_SECONDS = 30.0
TASK_SECONDS = 10.0
STOP_SECONDS = 10.0
WARM_UP_TASKS = 100
ID_BYTES = 64


class Floor:
    """Publishes empty tasks and waits for the datagrams that announce their stored results."""

    def __init__(self, inbox: socket.socket) -> None:
        self._inbox = inbox

    def round_trip(self, seconds: float = TASK_SECONDS) -> float:
        """Return the seconds from publishing a task to its stored result. Raises `TimeoutError`."""
        began_at = time.perf_counter()
        task_id = self._publish()
        self._inbox.settimeout(seconds)
        while self._inbox.recv(ID_BYTES) != task_id:
            pass
        return time.perf_counter() - began_at

    def throughput(self, tasks: int, outstanding: int) -> float:
        """Return the tasks per second with `outstanding` unfinished tasks at any time. Raises `TimeoutError`."""
        self._inbox.settimeout(TASK_SECONDS)
        began_at = time.perf_counter()
        for _ in range(outstanding):
            self._publish()
        for finished in range(tasks):
            self._inbox.recv(ID_BYTES)
            if finished < tasks - outstanding:
                self._publish()
        return tasks / (time.perf_counter() - began_at)

    def _publish(self) -> bytes:
        return str(app.send_task("bench.empty", queue=QUEUE).id).encode()


@contextmanager
def worker(concurrency: int) -> Iterator[None]:
    """Run the worker of `floor_worker` until the block ends."""
    with subprocess.Popen(
        [sys.executable, *floor_worker.command(concurrency)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # its log is on standard error
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def measure(round_trips: int, tasks: int, outstanding: int, concurrency: int) -> dict[str, Any]:
    """Start a worker, and return the JSON object that this module prints."""
    with tempfile.TemporaryDirectory(prefix="mcp-bench-floor-") as folder:
        path = str(Path(folder) / "inbox")
        os.environ[INBOX] = path
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
            inbox.bind(path)
            floor = Floor(inbox)
            with worker(concurrency):
                floor.round_trip(FIRST_SECONDS)
                floor.throughput(WARM_UP_TASKS, outstanding)
                alone = [floor.round_trip() for _ in range(round_trips)]
                return {"round_trips": alone, "tasks_per_second": floor.throughput(tasks, outstanding)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.celery_floor", description=__doc__)
    parser.add_argument("--round-trips", type=int, default=300)
    parser.add_argument("--tasks", type=int, default=1500)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY)
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    django.setup()
    print(json.dumps(measure(options.round_trips, options.tasks, options.outstanding, options.concurrency)))


if __name__ == "__main__":
    main()
