"""Interrupt one thread among many, by CPython's asynchronous exceptions.

Theory of operation
-------------------

`PyThreadState_SetAsyncExc` stores an exception class in a thread. CPython instantiates and raises
it in that thread, at the next instruction that checks for such an exception. C code is not
interrupted: a tool that waits there sees the exception when it returns to Python.

1. Between sending and raising, the thread runs on. So a sent exception may be raised too late:
   after the body, or inside a shield. To prevent that, `_disarm` and `_enter_shield` take it back,
   by storing NULL. They hold the lock that `interrupt` holds while it sends.
2. The exception may even be raised between the acquisition and the release of that lock. So the
   three calls are made by C code (`deque(map(...))`), in which nothing is raised.
3. The thread learns that the exception was raised when `Interrupted` is instantiated in it, which
   calls `struck`.
4. One exception is sent for a body. It is sent again only after a shield has taken it back.
5. On Python 3.14, an exception that is raised right after `__enter__` leaves the context entered.
   `with_statements` finds these places, and nothing is sent to a thread that is before one.
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

from mcp_app.execution.stopping.interrupt import Interrupter, ToolCancelled
from mcp_app.execution.stopping.with_statements import enters_next, is_entering

_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
_send = _PROTOTYPE(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
_take_back = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)
"""Called with a null pointer: CPython forgets an exception that was sent and not raised."""

_call: Callable[[Callable[[], object]], object] = call
_armed_threads: dict[int, "ThreadInterrupter"] = {}


class Interrupted(ToolCancelled):
    """The exception that is sent. Its instantiation shows the interrupter that it was raised."""

    def __init__(self) -> None:
        super().__init__()
        if (interrupter := _armed_threads.get(threading.get_ident())) is not None:
            interrupter.struck()


class ThreadInterrupter(Interrupter):
    """Interrupts one thread, by default the one that creates it. Each call has its own."""

    def __init__(self, thread: int | None = None) -> None:
        self._thread = threading.get_ident() if thread is None else thread
        super().__init__(self._thread)
        self._lock = threading.RLock()  # a finalizer may interrupt its own thread
        self._sent = False
        # Called from C code, so that no exception is raised between them and the lock is released.
        self._taking_back: tuple[Callable[[], object], ...] = (
            self._lock.acquire,
            partial(_take_back, self._thread, None),
            self._lock.release,
        )

    def interrupt(self, request_id: UUID, *, insist: bool = False) -> None:
        with self._lock:
            self._target, self._insisting = request_id, insist
            # This call fills the cache: for new code it is slow, and meanwhile the thread runs on.
            enters_next(self._frame())
            if not self._sent and self._may_be_sent(self._frame()):
                self._sent = True
                _send(self._thread, Interrupted)

    def struck(self) -> None:
        """Note that the exception was raised."""
        self._armed = None
        self.raised = True

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread)

    def _may_be_sent(self, frame: FrameType | None) -> bool:
        """Return whether an exception may be sent to the thread at `frame`.

        `insist` does not apply to `__enter__`: a thread that waits there sees the exception
        afterwards.
        """
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
            self.struck()  # before the shield ends, so that no second exception is sent
            self._shields = 0
            raise ToolCancelled
        self._shields -= 1
