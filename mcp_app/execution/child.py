"""What one worker child keeps between calls: its interrupter, recorder and watcher, made at its first call.

They are made in the child and not before: threads do not survive a fork, and billiard resets signals after it.
"""

import os
import threading
from dataclasses import dataclass
from functools import cache

from mcp_app.execution import log_records
from mcp_app.execution.identity import worker_identity
from mcp_app.execution.interrupt import Interrupter
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.watcher import Watcher


@dataclass(frozen=True, slots=True)
class Child:
    """The parts of this process that run and stop tools."""

    pid: int
    interrupter: Interrupter
    recorder: Recorder
    watcher: Watcher


class UnsupportedPoolError(RuntimeError):
    """Tools are to run in the main thread of a process of their own: start the worker with `--pool prefork`."""


def current() -> Child:
    """This process's parts. Raises UnsupportedPoolError off the main thread."""
    if threading.current_thread() is not threading.main_thread():
        raise UnsupportedPoolError(UnsupportedPoolError.__doc__)
    return _made(os.getpid())


@cache
def _made(pid: int) -> Child:
    interrupter = Interrupter()
    interrupter.install()
    recorder = Recorder()
    recorder.start()
    watcher = Watcher(worker_identity(), pid, interrupter, recorder)
    watcher.start()
    log_records.install()
    return Child(pid, interrupter, recorder, watcher)
