"""The pipe by which processes that run tools report to their worker's main process.

There are two reports: the time limit of a run has passed, by the clock of its process; and the
process that runs a request must end. The main process acts on them, because a tool could stop its
own process in the middle of a transaction.

The main process trusts what it reads: only processes that were forked from it have the pipe, and
programs that tools start do not inherit it. Each report is repeated, so a report that finds the
pipe full may be dropped.
"""

import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

_RECORD: Final = struct.Struct("=c16sI")
"""A report: kind, request, input round. It is shorter than `PIPE_BUF`, so writes are atomic."""
_LIMIT: Final = b"L"
_END: Final = b"E"
_AT_ONCE: Final = 64

_ends: tuple[int, int] | None = None
"""The read end and the write end."""


def make() -> None:
    """Make the pipe. Called in the worker's main process, before its pool is forked."""
    global _ends
    _ends = os.pipe()
    os.set_blocking(_ends[1], False)


def report_limit(request_id: UUID, input_round: int) -> None:
    """Report that the time limit has passed for the run of a request in this input round."""
    _write(_LIMIT, request_id, input_round)


def report_end(request_id: UUID) -> None:
    """Report that the process that runs a request must end, and that the drain time is over."""
    _write(_END, request_id, 0)


def read(on_limit: Callable[[UUID, int], object], on_end: Callable[[UUID], object]) -> None:
    """Start a thread that calls these functions for each report."""
    threading.Thread(target=_read, args=(on_limit, on_end), name="mcp-worker-pipe", daemon=True).start()


def _write(kind: bytes, request_id: UUID, input_round: int) -> None:
    if _ends is not None:
        with suppress(BlockingIOError):
            os.write(_ends[1], _RECORD.pack(kind, request_id.bytes, input_round))


def _read(on_limit: Callable[[UUID, int], object], on_end: Callable[[UUID], object]) -> None:
    assert _ends is not None
    while True:
        for kind, request_id, input_round in _RECORD.iter_unpack(os.read(_ends[0], _RECORD.size * _AT_ONCE)):
            if kind == _LIMIT:
                on_limit(UUID(bytes=request_id), input_round)
            else:
                on_end(UUID(bytes=request_id))
