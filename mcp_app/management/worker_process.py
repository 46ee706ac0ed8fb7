"""The worker that belongs to one server: a child process, started, watched, started again, and stopped for certain.

One thread does all of it, because Linux ties a child's life to the thread that started it. Refuses to leave a process:
what the worker does not end in time is killed with everything below it.
"""

import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from django.conf import settings as django_settings
from django.db import Error, connections

from mcp_app.conf import settings
from mcp_app.lifecycle import boot_ids
from mcp_app.lifecycle.clock import from_now
from mcp_app.management.worker import MARKER, PREFORK, kill_worker, stop_seconds
from mcp_app.models import Process
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
FIRST_BACK_OFF = 1.0
LONGEST_BACK_OFF = 30.0
STEADY_SECONDS = 60.0
"""A worker that lived this long is started again without delay."""


def command(concurrency: int, pool: str) -> list[str]:
    """The command line of a worker for this site, its settings and this process."""
    return [
        sys.executable,
        "-m",
        "django",
        "mcp",
        "worker",
        f"--settings={django_settings.SETTINGS_MODULE}",
        f"--pythonpath={sys.path[0] or os.getcwd()}",
        "--skip-checks",
        f"--concurrency={concurrency}",
        f"--pool={pool}",
        f"--parent-pid={os.getpid()}",
    ]


class WorkerProcess:
    """`start`, then `stop`. `on_ready` is called, in another thread, whenever a worker has begun to consume.

    `log` is the file descriptor that its log is written to, this process's standard error where it is None.
    """

    def __init__(
        self, concurrency: int, on_ready: Callable[[], None], pool: str = PREFORK, *, log: int | None = None
    ) -> None:
        self._command = command(concurrency, pool)
        self._stop_seconds = stop_seconds(pool)
        self._on_ready = on_ready
        self._log = log
        self._token = secrets.token_hex(16)
        self._stopping = threading.Event()
        self._lock = threading.RLock()  # `kill` may be called by a signal in the middle of `stop`
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="mcp-worker-process", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the worker to end, wait as long as that may take, kill what is left."""
        self._stopping.set()
        with self._lock:
            if self._process is not None:
                self._process.terminate()
        self._join(self._stop_seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the worker and everything that it started, at once."""
        self._stopping.set()
        with self._lock:
            # The id of a worker that has ended may be another process's by now.
            root = self._process.pid if self._process is not None and self._process.poll() is None else None
        if not kill_worker(self._token, root):
            logger.error("processes of the worker could not be killed")
        self._join(1.0)

    def _join(self, seconds: float) -> None:
        if self._thread.is_alive():  # it may never have been started
            self._thread.join(seconds)

    def _run(self) -> None:
        back_off = FIRST_BACK_OFF
        while (process := self._launch()) is not None:
            launched_at = time.monotonic()
            self._await_ready(process, launched_at)
            status = process.wait()
            if self._stopping.is_set():
                return
            kill_worker(self._token, None)  # what it left behind
            if time.monotonic() - launched_at > STEADY_SECONDS:
                back_off = FIRST_BACK_OFF
            logger.error("the worker ended with status %s and is started again in %g s", status, back_off)
            if self._stopping.wait(back_off):
                return
            back_off = min(back_off * 2, LONGEST_BACK_OFF)

    def _launch(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                self._command,
                env={**os.environ, MARKER: self._token},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # Celery's own remarks; its log is on standard error
                stderr=self._log,
                start_new_session=True,  # a terminal's Ctrl-C is for the server, which stops the worker in its turn
            )
            return self._process

    def _await_ready(self, process: subprocess.Popen[bytes], launched_at: float) -> None:
        try:
            while process.poll() is None and not self._stopping.is_set():
                if _consumes(process.pid, time.monotonic() - launched_at):
                    self._on_ready()
                    return
                self._stopping.wait(LOOK_SECONDS)
        finally:
            connections.close_all()


def _consumes(pid: int, age: float) -> bool:
    """Whether the worker that was launched `age` seconds ago has registered itself, which it does when it consumes."""
    try:
        registered = Process.objects.filter(
            role=ProcessRole.WORKER,
            pid=pid,
            started_at__gte=from_now(-age - 1.0),
            heartbeat_at__gte=from_now(-settings.LOST_AFTER),
            stopped_at__isnull=True,
        )
        return any(map(boot_ids.is_numbered_here, registered.values_list("boot_id", flat=True)))
    except Error:
        logger.debug("the worker's row could not be read", exc_info=True)
        return False
