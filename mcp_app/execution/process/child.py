"""The parts of a process that runs tools: recorder, watcher, signal handling, and slots for calls.

In a prefork pool each pool process has its own parts. They are made at its first call, not before
the fork: threads do not survive a fork, and billiard resets signals after it. In a threads pool,
the worker's main process has one set of parts for all its threads.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from celery import signals

from mcp_app.celery_adapter.broker import RUN_TASK
from mcp_app.execution.process.slots import ProcessSlot, Slot, ThreadSlot
from mcp_app.execution.process.watcher import Watcher, child_address
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping import processes
from mcp_app.execution.stopping.interrupt import SignalInterrupter
from mcp_app.execution.stopping.termination import Termination, WorkerTermination
from mcp_app.execution.tool import log_records
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.supervision.dead_servers import LocalServers
from mcp_app.states import ProcessRole


@cache
def worker_identity() -> Identity:
    """Return the identity of this worker: its boot id, host and main process.

    The first call must be in the main process, before the pool forks, so that all processes of the
    pool return the same identity.
    """
    return Identity(ProcessRole.WORKER)


@dataclass(frozen=True, slots=True)
class Child:
    """The parts of this process that run and stop tools."""

    pid: int
    recorder: Recorder
    watcher: Watcher
    termination: Termination
    slot: Callable[[], Slot]
    """Return a slot for the call that is about to run in this thread."""
    claimed: set[UUID] = field(default_factory=set)
    """The requests that this process runs."""
    servers: LocalServers = field(default_factory=LocalServers)
    """Checked before each claim, by one thread at a time."""


class UnsupportedPoolError(RuntimeError):
    """Tools run in prefork's processes or in threads: start the worker with `--pool prefork` or `--pool threads`."""


_thread_pool_children: dict[int, Child] = {}
"""The parts of processes with a threads pool, by process id."""


def current() -> Child:
    """Return the parts of this process.

    Raises `UnsupportedPoolError` in a process that must not run tools.
    """
    if threading.current_thread() is threading.main_thread():
        return _main_thread_child(os.getpid())
    if (here := _thread_pool_children.get(os.getpid())) is None:
        raise UnsupportedPoolError(UnsupportedPoolError.__doc__)
    return here


def open_for_threads() -> Child:
    """Make the parts of a worker whose threads run tools."""
    from mcp_app.execution.stopping.thread_interrupt import ThreadInterrupter  # CPython only

    here = _thread_pool_children[os.getpid()] = _make_child(
        os.getpid(), lambda: ThreadSlot(ThreadInterrupter()), WorkerTermination()
    )
    return here


@signals.task_postrun.connect  # type: ignore[untyped-decorator] # Celery ships no types
def _finish_termination(sender: Any, **kwargs: Any) -> None:
    if sender.name == RUN_TASK:
        current().termination.finish()


@cache
def _main_thread_child(pid: int) -> Child:
    interrupter = SignalInterrupter()
    interrupter.install()
    processes.adopt_orphans()
    slot = ProcessSlot(interrupter)
    address = child_address(worker_identity().boot_id, pid)
    termination = Termination(lambda: wakeups.hint(address), lambda: interrupter.armed)
    return _make_child(pid, lambda: slot, termination)


def _make_child(pid: int, slot: Callable[[], Slot], termination: Termination) -> Child:
    recorder = Recorder()
    recorder.start()
    watcher = Watcher(worker_identity(), pid, recorder, termination)
    watcher.start()
    log_records.install()
    return Child(pid, recorder, watcher, termination, slot)
