"""The worker that `mcp call` starts if none is alive. Its log lines are shown among those of the call."""

import os
import threading
from collections.abc import Callable
from typing import BinaryIO, Final

from django.db import connections

from mcp_app.lifecycle.liveness import processes
from mcp_app.management.calling.display import Display
from mcp_app.management.serving.own_worker import OwnWorker
from mcp_app.states import ProcessRole

LINE_BYTES: Final = 4096
NONE_STARTED: Final = "No worker is alive. The call waits for one: start `python manage.py mcp worker`."
STARTED: Final = "No worker is alive; starting one for this call."


class CallWorker:
    """A worker process for one call: `start` it, then `stop` or `kill` it.

    If `concurrency` is `None`, no worker is started, and a line says that none is alive. `on_failed` is called as by
    `WorkerProcess`.
    """

    def __init__(self, concurrency: int | None, display: Display, on_failed: Callable[[str], object]) -> None:
        self._display = display
        self._worker: OwnWorker | None = None
        self._log = -1
        if concurrency is not None:
            # Output of tools is in the worker's log. The display escapes it.
            reading, self._log = os.pipe()
            self._worker = OwnWorker(
                concurrency, on_failed=on_failed, on_needed=lambda: display.line(STARTED), log=self._log
            )
            threading.Thread(target=self._show, args=(os.fdopen(reading, "rb"),), daemon=True).start()

    def start(self) -> None:
        """Start a worker unless one is alive. Queries the database. Raises `django.db.Error`."""
        if self._worker is not None:
            self._worker.start()
            return
        try:
            if not processes.any_alive(ProcessRole.WORKER):
                self._display.line(NONE_STARTED)
        finally:
            connections.close_all()

    def stop(self) -> None:
        """Stop the worker as `OwnWorker.stop` does."""
        if self._worker is not None:
            self._worker.stop()
            os.close(self._log)

    def kill(self) -> None:
        """Kill the worker as `OwnWorker.kill` does."""
        if self._worker is not None:
            self._worker.kill()

    def _show(self, log: BinaryIO) -> None:
        with log:
            while line := log.readline(LINE_BYTES):
                if text := line.decode(errors="replace").strip():
                    self._display.line(f"worker: {text}")
