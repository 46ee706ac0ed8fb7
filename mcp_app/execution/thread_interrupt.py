"""The interrupt of one thread among many: CPython's asynchronous exception, sent into a thread and taken back.

CPython raises it in that thread at the next instruction that looks, not in the middle of C code: what sleeps there does
not see it before it returns. What was sent and has not struck is taken back under a lock when the body ends and when it
enters a shield, so that it hits neither. Refuses to send a second one for the same body.
"""

import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import call
from types import FrameType
from uuid import UUID

from mcp_app.execution.interrupt import Interrupter, ToolCancelled
from mcp_app.execution.with_statements import enters_next, is_entering

_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
_send = _PROTOTYPE(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
_take_back = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)
"""With a null pointer: whatever was sent to that thread and has not been raised is forgotten."""

_call: Callable[[Callable[[], object]], object] = call
_armed_threads: dict[int, "ThreadInterrupter"] = {}


class Interrupted(ToolCancelled):
    """What is sent into a thread. Made when it is raised there, which is how its interrupter learns that it was."""

    def __init__(self) -> None:
        super().__init__()
        if (interrupter := _armed_threads.get(threading.get_ident())) is not None:
            interrupter.struck()


class ThreadInterrupter(Interrupter):
    """Interrupts one thread, by default that in which it is made. One for each call."""

    def __init__(self, thread: int | None = None) -> None:
        self._thread = threading.get_ident() if thread is None else thread
        super().__init__(self._thread)
        self._lock = threading.RLock()  # a finalizer may ask for its own thread's interrupt
        self._sent = False
        # Called from C code, between which nothing is raised: what struck there would leave the lock held.
        self._taking_back: tuple[Callable[[], object], ...] = (
            self._lock.acquire,
            partial(_take_back, self._thread, None),
            self._lock.release,
        )

    def interrupt(self, request_id: UUID, *, insist: bool = False) -> None:
        with self._lock:
            self._target, self._insisting = request_id, insist
            enters_next(self._frame())  # code that is new takes its time, in which the thread goes on
            if not self._sent and self._may_be_sent(self._frame()):
                self._sent = True
                _send(self._thread, Interrupted)

    def struck(self) -> None:
        """It was raised."""
        self._armed = None
        self.raised = True

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread)

    def _may_be_sent(self, frame: FrameType | None) -> bool:
        """Insisting does no good at an `__enter__`: what waits there sees it once it has what it waits for."""
        if is_entering(frame) or (not self._insisting and enters_next(frame)):
            return False
        return self._is_due(frame)

    def _arm(self, request_id: UUID) -> None:
        self._sent = False
        _armed_threads[self._thread] = self
        self._armed = request_id

    def _disarm(self) -> None:
        super()._disarm()
        deque(map(_call, self._taking_back), maxlen=0)
        _armed_threads.pop(self._thread, None)

    def _enter_shield(self) -> None:
        super()._enter_shield()
        try:
            deque(map(_call, self._taking_back), maxlen=0)
        except BaseException:
            self._shields -= 1
            raise
        self._sent = self._sent and self.raised

    def _leave_shield(self) -> None:
        if self._shields == 1 and self._would_be_due(sys._getframe()):
            self.struck()  # before the shield is gone: then none is sent beside what is raised here
            self._shields = 0
            raise ToolCancelled
        self._shields -= 1
