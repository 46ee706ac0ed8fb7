"""A process that exchanges lines of JSON with the test. Its standard error goes to a file."""

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.site.inspector import ROOT

LOG_CHARS: Final = 4000


class LineProcess:
    """One process, in a session of its own. A wait lasts at most `patience` seconds."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, patience: float) -> None:
        self.log = log
        self.patience = patience
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        message = self.receive_within(self.patience)
        assert message is not None, f"there is no message:\n{self.errors()}"
        return message

    def receive_within(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message, or `None` if none arrives within `seconds`."""
        try:
            line = self._lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        assert line, f"it ended:\n{self.errors()}"
        message: dict[str, Any] = json.loads(line)
        return message

    def rest(self) -> list[dict[str, Any]]:
        """Return the remaining messages, until the process closes its output."""
        messages = []
        while line := self._lines.get(timeout=self.patience):
            messages.append(json.loads(line))
        return messages

    def errors(self) -> str:
        """Return the end of its standard error output."""
        return self.log.read_text(errors="replace")[-LOG_CHARS:]

    def close(self) -> None:
        """Close the standard input of the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until the process has ended, and return its exit status."""
        status = self._process.wait(self.patience)
        self._reader.join(self.patience)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return status

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")
