"""A command at a terminal, as a user runs it: the screen, and the keys that are pressed."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.management.conftest import ROOT, WAIT_SECONDS, environment, eventually

COLUMNS: Final = 100
LINES: Final = 30
CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\n"


class Terminal:
    """A command whose standard streams are its controlling terminal. `out` sends its output to a file instead."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: Path = ROOT,
        out: Path | None = None,
        columns: int = COLUMNS,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        self._shown = bytearray()
        stdout = slave if out is None else os.open(out, os.O_WRONLY | os.O_CREAT, 0o600)
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**env, "TERM": "xterm"},
            stdin=slave,
            stdout=stdout,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        if out is not None:
            os.close(stdout)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while some := os.read(self._master, 65536):
                self._shown += some
        except OSError:  # every process that had it open has ended
            return

    @property
    def raw(self) -> str:
        """All characters that the command has printed."""
        return self._shown.decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        """The lines that remain on the screen."""
        return what_stays(self.raw)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_shows(self, text: str, times: int = 1) -> None:
        eventually(lambda: self.raw.count(text) >= times or self.process.poll() is not None)
        assert self.raw.count(text) >= times, self.raw

    def wait(self) -> int:
        """Wait until the command has ended and all its output is read. Return the exit status."""
        status = self.process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        return status

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._master)


def what_stays(raw: str) -> list[str]:
    """Return the lines that a terminal still shows, without escape sequences; of overwritten lines, the last text."""
    kept = [line.rsplit("\r\x1b[K", 1)[-1] for line in raw.replace("\r\n", "\n").split("\n")]
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip("\r") for line in kept]


@contextmanager
def terminal(
    data: Path, *arguments: str, out: Path | None = None, columns: int = COLUMNS, **changes: str
) -> Iterator[Terminal]:
    """Run `manage.py mcp …` at a terminal."""
    command = [sys.executable, "manage.py", "mcp", *arguments]
    opened = Terminal(command, environment(data, **changes), out=out, columns=columns)
    try:
        yield opened
    finally:
        if opened.process.poll() is None:
            opened.process.send_signal(signal.SIGKILL)
        opened.process.wait(WAIT_SECONDS)


def moves(steps: Path, seconds: float = 0.6) -> bool:
    """Return whether the file is still growing."""
    before = steps.read_bytes()
    threading.Event().wait(seconds)
    return steps.read_bytes() != before
