"""The worker that `mcp stdio` or `mcp call` starts for itself, unless one is alive on the site already.

Looks on: another's worker may end while clients still wait. Refuses to leave a process behind, and to end a worker that
is not its own.
"""

import logging
import threading
from collections.abc import Callable

from django.db import Error, connections

from mcp_app.lifecycle import processes
from mcp_app.management.worker_process import WorkerProcess
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


class OwnWorker:
    """`start`, then `stop` or `kill`. The database is looked at in a thread.

    `on_needed` is called there when one is to be started; `log` is a file descriptor for its log, not standard error.
    """

    def __init__(
        self, concurrency: int, *, on_needed: Callable[[], object] = lambda: None, log: int | None = None
    ) -> None:
        self._worker = WorkerProcess(concurrency, on_ready=_say_ready, log=log)
        self._on_needed = on_needed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mcp-own-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """As `WorkerProcess.stop`, if it was started."""
        self._stopping.set()
        self._worker.stop()

    def kill(self) -> None:
        """As `WorkerProcess.kill`."""
        self._stopping.set()
        self._worker.kill()

    def _run(self) -> None:
        try:
            while _another_is_alive():
                if self._stopping.wait(LOOK_SECONDS):
                    return
        finally:
            connections.close_all()
        logger.info("no worker is alive: one is started for this client")
        self._on_needed()
        self._worker.start()


def _another_is_alive() -> bool:
    try:
        return processes.any_alive(ProcessRole.WORKER)
    except Error as error:
        logger.error("the workers' rows cannot be read, trying again: %s", error)
        return True  # without the database a worker of our own could do nothing either


def _say_ready() -> None:
    logger.info("the worker has begun")
