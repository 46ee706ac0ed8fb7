"""`ctx.run`: run a subprocess that ends with its request.

The command is a list of arguments; there is no shell. While the process runs, this module polls for
the cancellation. Output that was read by then becomes the partial result.
"""

import codecs
import io
import logging
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from mcp_app.catalogue.errors import ToolError

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
TERMINATE_GRACE = 0.3
READ_BYTES = 65_536
MAX_LINE_CHARS = 65_536
"""A longer line is passed on in pieces."""
MAX_OUTPUT_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Completed:
    """The exit status and output of a subprocess."""

    returncode: int
    """As in `subprocess`: negative if a signal ended it."""
    output: str
    """Standard output and standard error together, decoded as UTF-8, at most 1,000,000 characters.
    Line ends are `\\n`."""
    truncated: bool = False
    """Whether the output was longer."""


class _Output:
    """The output so far, up to MAX_OUTPUT_CHARS."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._room = MAX_OUTPUT_CHARS
        self.truncated = False

    def add(self, line: str) -> None:
        if self._room:
            self._lines.append(line[: self._room])
        self.truncated = self.truncated or len(line) > self._room
        self._room -= min(len(line), self._room)

    def text(self) -> str:
        return "".join(self._lines)


class _LineSplitter:
    """Split bytes into lines. All line ends become `\\n`."""

    def __init__(self) -> None:
        utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
        self._rest = ""

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that `data` completes. Empty `data` is the end: yield the rest."""
        *lines, self._rest = (self._rest + self._decoder.decode(data, final=not data)).split("\n")
        yield from (f"{line}\n" for line in lines)
        if self._rest and (not data or len(self._rest) >= MAX_LINE_CHARS):
            yield self._rest
            self._rest = ""


def run(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    check: Callable[[], None],
    on_line: Callable[[str], None] | None,
    on_partial: Callable[[str], None],
) -> Completed:
    """Run `argv` to its end. Call `on_line` for each line, and `check` at least every POLL_SECONDS.

    Standard error is part of the output; standard input is empty. If `check`, `on_line` or an
    interrupt raises, the process group is terminated and then killed, `on_partial` gets the output
    so far, and the exception goes on.

    Raises `ToolError` if the program cannot be started.
    """
    process = _start(argv, cwd, env)
    output = _Output()
    assert process.stdout is not None
    try:
        _pump(process.stdout, output, check, on_line)
        return Completed(_await_end(process, check), output.text(), output.truncated)
    except BaseException:
        on_partial(output.text())
        _end(process)
        raise
    finally:
        process.stdout.close()


def _start(
    argv: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - a list of arguments, from the tool's author
            list(argv),
            bufsize=0,
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        logger.exception("the program %s could not be started", argv[0])
        program = os.path.basename(os.fspath(argv[0]))
        why = error.strerror or type(error).__name__
        raise ToolError(f"The program {program!r} could not be started on this server: {why}.") from error


def _pump(stream: IO[bytes], output: _Output, check: Callable[[], None], on_line: Callable[[str], None] | None) -> None:
    """Pass on lines until the stream ends, and check for a cancellation in between.

    This runs in the tool's own thread. Output that was not read yet waits in the pipe, and an
    interrupt leaves no lock taken.
    """
    lines = _LineSplitter()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            check()
            if not selector.select(POLL_SECONDS):
                continue
            data = os.read(stream.fileno(), READ_BYTES)
            for line in lines.feed(data):
                output.add(line)
                if on_line is not None:
                    on_line(line)
            if not data:
                return


def _await_end(process: subprocess.Popen[bytes], check: Callable[[], None]) -> int:
    """Return the exit status of a process that has closed its output but may still run."""
    while True:
        check()
        with suppress(subprocess.TimeoutExpired):
            return process.wait(POLL_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, grace in ((signal.SIGTERM, TERMINATE_GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
