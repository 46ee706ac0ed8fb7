"""The worker of a call's own, where none is alive, and what it logs: lines among the call's."""

import os
import threading
from typing import BinaryIO, Final

from django.db import connections

from mcp_app.lifecycle import processes
from mcp_app.management.calling.display import Display
from mcp_app.management.own_worker import OwnWorker
from mcp_app.states import ProcessRole

LINE_BYTES: Final = 4096
NONE_STARTED: Final = "No worker is alive. The call waits for one: start `python manage.py mcp worker`."
STARTED: Final = "No worker is alive: one is started for this call."


class CallWorker:
    """`start`, then `stop` or `kill`. `concurrency` None: none is started, it is only said that there is none."""

    def __init__(self, concurrency: int | None, display: Display) -> None:
        self._display = display
        self._worker: OwnWorker | None = None
        self._log = -1
        if concurrency is not None:
            # What a tool prints is in its worker's log: foreign, so that it passes through the display.
            reading, self._log = os.pipe()
            self._worker = OwnWorker(concurrency, on_needed=lambda: display.line(STARTED), log=self._log)
            threading.Thread(target=self._show, args=(os.fdopen(reading, "rb"),), daemon=True).start()

    def start(self) -> None:
        """See to one. Blocks on the database. Raises django.db.Error."""
        if self._worker is not None:
            self._worker.start()
            return
        try:
            if not processes.any_alive(ProcessRole.WORKER):
                self._display.line(NONE_STARTED)
        finally:
            connections.close_all()

    def stop(self) -> None:
        """As `OwnWorker.stop`."""
        if self._worker is not None:
            self._worker.stop()
            os.close(self._log)

    def kill(self) -> None:
        """As `OwnWorker.kill`."""
        if self._worker is not None:
            self._worker.kill()

    def _show(self, log: BinaryIO) -> None:
        with log:
            while line := log.readline(LINE_BYTES):
                if text := line.decode(errors="replace").strip():
                    self._display.line(f"worker: {text}")
