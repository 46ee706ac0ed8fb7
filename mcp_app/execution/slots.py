"""Where one call runs: in a process of its own, or in one thread of many. What of it is the call's alone.

In a prefork child everything is: whatever the process started is the call's. In a thread only what can be told apart
is: the processes that the thread itself started (Linux knows), and those that carry the call's marker, which
`ToolContext.run` gives them. Refuses to touch what may be another call's.
"""

import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from uuid import UUID

from psutil import NoSuchProcess, Process

from mcp_app.execution import processes
from mcp_app.execution.connections import ToolConnections
from mcp_app.execution.interrupt import Interrupter


class Slot(ABC):
    """One call's place."""

    def __init__(self, interrupter: Interrupter, connections: ToolConnections | None = None) -> None:
        self.interrupter = interrupter
        self.connections = connections or ToolConnections()

    @abstractmethod
    def marked(self, request_id: UUID) -> AbstractContextManager[None]:
        """While the block runs, mark what it starts as the request's, as far as that is possible here."""

    @abstractmethod
    def started(self) -> set[Process]:
        """The processes that the call started, as far as descent tells. From any thread."""

    @abstractmethod
    def leave_to_supervision(self) -> None:
        """The call's end cannot be stored: see to it that its row does not look alive because of this process."""

    def kill_leftovers(self, request_id: UUID, *, marked: bool = True) -> bool:
        """Kill and reap what the call started, once its body has ended; whether none is left.

        `marked`: whether any of it can carry the marker, without having been found by descent.
        """
        started = self.started()
        if not started and not marked:
            return True
        gone = processes.kill_all(request_id, started)
        processes.reap(started)
        return gone


class ProcessSlot(Slot):
    """A child of prefork's pool."""

    def marked(self, request_id: UUID) -> AbstractContextManager[None]:
        return processes.marked(request_id)

    def started(self) -> set[Process]:
        return processes.descendants(os.getpid())

    def leave_to_supervision(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def kill_leftovers(self, request_id: UUID, *, marked: bool = True) -> bool:
        return super().kill_leftovers(request_id)  # its environment is marked: so is all that inherits it


class ThreadSlot(Slot):
    """The thread that makes it. What the thread had started before, for other calls, is not this call's."""

    def __init__(self, interrupter: Interrupter, connections: ToolConnections | None = None) -> None:
        super().__init__(interrupter, connections)
        self._thread = threading.get_native_id()
        self._others = processes.children_of_thread(self._thread)

    @contextmanager
    def marked(self, request_id: UUID) -> Iterator[None]:
        yield  # the environment is the whole process's

    def started(self) -> set[Process]:
        return _with_descendants(processes.children_of_thread(self._thread) - self._others)

    def leave_to_supervision(self) -> None:
        """Nothing: the process goes on with its other calls, and its ladder closes a row that no thread runs."""


def _with_descendants(children: Iterable[Process]) -> set[Process]:
    found = set(children)
    for child in tuple(found):
        with suppress(NoSuchProcess):
            found.update(child.children(recursive=True))
    return found
