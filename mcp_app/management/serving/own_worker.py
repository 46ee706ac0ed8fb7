"""The worker that `mcp stdio` or `mcp call` starts, unless one is alive on the site.

It checks again and again, because the other worker may end while the client still waits. It never stops a worker that
it has not started, and leaves no process behind.
"""

import logging
import threading
from collections.abc import Callable

from django.db import Error, connections

from mcp_app.lifecycle.liveness import processes
from mcp_app.management.serving.worker_process import WorkerProcess
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


class OwnWorker:
    """`start`, then `stop` or `kill`. The callbacks run in another thread, which also queries the database.

    `on_needed` is called before the worker is started. `on_failed` is called as `WorkerProcess` calls it. `log` is the
    file descriptor that the worker's log is written to, by default this process's standard error.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        on_failed: Callable[[str], object],
        on_needed: Callable[[], object] = lambda: None,
        log: int | None = None,
    ) -> None:
        self._worker = WorkerProcess(concurrency, _say_ready, on_failed, log=log)
        self._on_needed = on_needed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mcp-own-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the worker as `WorkerProcess.stop` does, if it was started."""
        self._stopping.set()
        self._worker.stop()

    def kill(self) -> None:
        """Kill the worker as `WorkerProcess.kill` does."""
        self._stopping.set()
        self._worker.kill()

    def _run(self) -> None:
        try:
            while _another_is_alive():
                if self._stopping.wait(LOOK_SECONDS):
                    return
        finally:
            connections.close_all()
        logger.info("no worker is alive; starting one for this client")
        self._on_needed()
        self._worker.start()


def _another_is_alive() -> bool:
    try:
        return processes.any_alive(ProcessRole.WORKER)
    except Error as error:
        logger.error("the workers' rows cannot be read, trying again: %s", error)
        return True  # without the database, a worker could do nothing either


def _say_ready() -> None:
    logger.info("the worker is ready")
