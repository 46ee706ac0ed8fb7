"""Start, watch, restart and stop the worker that belongs to one server, a child process.

A worker that ends is restarted. If none of the first starts succeeds, the site cannot run one: `WorkerProcess` gives
up. After the first success it never does, because a database that is away for minutes also makes starts fail.

One thread does all of it, because Linux ties a child's life to the thread that started it. When the worker is stopped,
every process below it that does not end in time is killed.
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
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.liveness import processes
from mcp_app.management.serving.worker import MARKER, PREFORK, kill_worker, stop_seconds
from mcp_app.models import Process
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
FIRST_BACK_OFF = 1.0
LONGEST_BACK_OFF = 30.0
STEADY_SECONDS = 60.0
"""A worker that has lived this long is restarted without delay."""
FIRST_STARTS = 3
"""The number of starts that may fail before the first one succeeds."""


def command(concurrency: int, pool: str) -> list[str]:
    """Return the command line of a worker with this site's settings that ends with this process."""
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
    """`start`, then `stop`. The callbacks run in another thread.

    `on_ready` is called whenever a worker has begun to consume. `on_failed` is called once, with a sentence for people,
    if no worker can be started; none is started after that. `log` is the file descriptor that the worker's log is
    written to, by default this process's standard error.
    """

    def __init__(
        self,
        concurrency: int,
        on_ready: Callable[[], None],
        on_failed: Callable[[str], object],
        pool: str = PREFORK,
        *,
        log: int | None = None,
    ) -> None:
        self._command = command(concurrency, pool)
        self._stop_seconds = stop_seconds(pool)
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._has_been_ready = False
        self._log = log
        self._token = secrets.token_hex(16)
        self._stopping = threading.Event()
        self._lock = threading.RLock()  # `kill` may be called by a signal handler during `stop`
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="mcp-worker-process", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the worker to end, wait for that, and kill the remaining processes."""
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
            # The process id of an ended worker may have been reused.
            root = self._process.pid if self._process is not None and self._process.poll() is None else None
        if not kill_worker(self._token, root):
            logger.error("processes of the worker could not be killed")
        self._join(1.0)

    def _join(self, seconds: float) -> None:
        if self._thread.is_alive():  # it may never have been started
            self._thread.join(seconds)

    def _run(self) -> None:
        back_off, failed_starts = FIRST_BACK_OFF, 0
        while (process := self._launch()) is not None:
            launched_at = time.monotonic()
            self._await_ready(process, launched_at)
            status = process.wait()
            if self._stopping.is_set():
                return
            kill_worker(self._token, None)  # its remaining processes
            if time.monotonic() - launched_at > STEADY_SECONDS:
                back_off, failed_starts = FIRST_BACK_OFF, 0
            elif not self._has_been_ready:
                failed_starts += 1
            if failed_starts == FIRST_STARTS:
                self._on_failed(
                    f"The worker cannot be started: it ended {failed_starts} times before it took calls, the last time "
                    f"with status {status}. Its messages are above; `manage.py mcp worker` shows only those."
                )
                return
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
                stdout=subprocess.DEVNULL,  # Celery's banner; its log goes to standard error
                stderr=self._log,
                start_new_session=True,  # Ctrl-C at a terminal goes to the server, which stops the worker
            )
            return self._process

    def _await_ready(self, process: subprocess.Popen[bytes], launched_at: float) -> None:
        try:
            while process.poll() is None and not self._stopping.is_set():
                if _consumes(process.pid, time.monotonic() - launched_at):
                    self._has_been_ready = True
                    self._on_ready()
                    return
                self._stopping.wait(LOOK_SECONDS)
        finally:
            connections.close_all()


def _consumes(pid: int, age: float) -> bool:
    """Whether the worker that was started `age` seconds ago has registered itself, and so consumes."""
    try:
        registered = Process.objects.filter(
            role=ProcessRole.WORKER,
            pid=pid,
            started_at__gte=from_now(-age - 1.0),
            heartbeat_at__gte=from_now(-settings.LOST_AFTER),
            stopped_at__isnull=True,
        )
        return any(map(processes.is_numbered_here, registered.values_list("boot_id", flat=True)))
    except Error:
        logger.debug("the worker's row could not be read", exc_info=True)
        return False
