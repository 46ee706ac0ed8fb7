"""A process that is talked to in lines of JSON; its standard error goes to a file."""

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
    """One process, in a session of its own. Waits at most `patience` seconds for anything."""

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
        """The next message."""
        message = self.receive_within(self.patience)
        assert message is not None, f"there is no message:\n{self.errors()}"
        return message

    def receive_within(self, seconds: float) -> dict[str, Any] | None:
        """The next message; None where none comes for so long."""
        try:
            line = self._lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        assert line, f"it ended:\n{self.errors()}"
        message: dict[str, Any] = json.loads(line)
        return message

    def rest(self) -> list[dict[str, Any]]:
        """Every message that still comes, until it has closed its end."""
        messages = []
        while line := self._lines.get(timeout=self.patience):
            messages.append(json.loads(line))
        return messages

    def errors(self) -> str:
        """The end of what it said on standard error."""
        return self.log.read_text(errors="replace")[-LOG_CHARS:]

    def close(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit status, once it has ended."""
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
