"""`ctx.run`: a subprocess that dies with its request. Polls for the cancellation; keeps what was printed by then.

Refuses a shell: the command is a list of arguments.
"""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

POLL_SECONDS = 0.1
TERMINATE_GRACE = 0.3
MAX_OUTPUT_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Completed:
    """What a subprocess left: its exit status, and its output up to a bound (`truncated` says that there was more)."""

    returncode: int
    output: str
    truncated: bool = False


class _Output:
    """The lines printed so far, up to MAX_OUTPUT_CHARS."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._chars = 0
        self.truncated = False

    def add(self, line: str) -> None:
        if self._chars + len(line) > MAX_OUTPUT_CHARS:
            self.truncated = True
            return
        self._lines.append(line)
        self._chars += len(line)

    def text(self) -> str:
        return "".join(self._lines)


def run(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    check: Callable[[], None],
    on_line: Callable[[str], None] | None,
    on_partial: Callable[[str], None],
) -> Completed:
    """Run `argv` to its end, calling `check` at least every POLL_SECONDS and `on_line` for each line of its output.

    Standard error is part of the output, standard input is empty. If `check`, `on_line` or an interrupt raises, the
    process and its group are terminated, then killed; `on_partial` is given what was printed; the exception goes on.
    """
    process = subprocess.Popen(  # noqa: S603 - a list of arguments, from the tool's author
        list(argv),
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    output = _Output()
    try:
        assert process.stdout is not None
        _pump(process.stdout, output, check, on_line)
        return Completed(process.wait(), output.text(), output.truncated)
    except BaseException:
        on_partial(output.text())
        _end(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


def _pump(stream: IO[str], output: _Output, check: Callable[[], None], on_line: Callable[[str], None] | None) -> None:
    """Hand on lines until the stream ends, looking for a cancellation in between."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(stream, lines), name="mcp-output", daemon=True).start()
    while True:
        check()
        with suppress(queue.Empty):
            line = lines.get(timeout=POLL_SECONDS)
            if line is None:
                return
            output.add(line)
            if on_line is not None:
                on_line(line)


def _read(stream: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
    with suppress(ValueError, OSError):  # closed by the main thread after a stop
        for line in stream:
            lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    for number, grace in ((signal.SIGTERM, TERMINATE_GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
