"""What one process that runs tools keeps between calls: its recorder, its watcher, and the slots that calls run in.

With prefork's pool that is a worker's child, whose parts are made in it at its first call and not before: threads do
not survive a fork, and billiard resets signals after it. With the threads pool it is the worker's own process.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from celery import signals

from mcp_app.execution import log_records
from mcp_app.execution.identity import worker_identity
from mcp_app.execution.interrupt import SignalInterrupter
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.slots import ProcessSlot, Slot, ThreadSlot
from mcp_app.execution.termination import OfWorker, Termination
from mcp_app.execution.watcher import Watcher, child_address
from mcp_app.lifecycle import wakeups
from mcp_app.lifecycle.publishing import RUN_TASK


@dataclass(frozen=True, slots=True)
class Child:
    """The parts of this process that run and stop tools."""

    pid: int
    recorder: Recorder
    watcher: Watcher
    termination: Termination
    slot: Callable[[], Slot]
    """The slot of the call that is about to run in this thread."""
    claimed: set[UUID] = field(default_factory=set)
    """The requests that this process runs."""


class UnsupportedPoolError(RuntimeError):
    """Tools run in prefork's processes or in threads: start the worker with `--pool prefork` or `--pool threads`."""


_of_threads: dict[int, Child] = {}


def current() -> Child:
    """This process's parts. Raises UnsupportedPoolError where it may run no tool."""
    if threading.current_thread() is threading.main_thread():
        return _made(os.getpid())
    if (here := _of_threads.get(os.getpid())) is None:
        raise UnsupportedPoolError(UnsupportedPoolError.__doc__)
    return here


def open_for_threads() -> Child:
    """Make the parts of a worker whose threads run tools."""
    from mcp_app.execution.thread_interrupt import ThreadInterrupter  # CPython only

    here = _of_threads[os.getpid()] = _make(os.getpid(), lambda: ThreadSlot(ThreadInterrupter()), OfWorker())
    return here


@signals.task_postrun.connect  # type: ignore[untyped-decorator] # Celery ships no types
def _over(sender: Any, **kwargs: Any) -> None:
    if sender.name == RUN_TASK:
        current().termination.finish()


@cache
def _made(pid: int) -> Child:
    interrupter = SignalInterrupter()
    interrupter.install()
    slot = ProcessSlot(interrupter)
    address = child_address(worker_identity().boot_id, pid)
    termination = Termination(lambda: wakeups.hint(address), lambda: interrupter.armed)
    return _make(pid, lambda: slot, termination)


def _make(pid: int, slot: Callable[[], Slot], termination: Termination) -> Child:
    recorder = Recorder()
    recorder.start()
    watcher = Watcher(worker_identity(), pid, recorder, termination)
    watcher.start()
    log_records.install()
    return Child(pid, recorder, watcher, termination, slot)
