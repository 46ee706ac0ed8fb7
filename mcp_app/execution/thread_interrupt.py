"""The interrupt of one thread among many: CPython's asynchronous exception, sent into a thread and taken back.

CPython raises it in that thread at the next instruction that looks, not in the middle of C code: what sleeps there does
not see it before it returns. What was sent and has not struck is taken back under a lock when the body ends and when it
enters a shield, so that it hits neither. Refuses to send a second one for the same body.
"""

import ctypes
import sys
import threading
from uuid import UUID

from mcp_app.execution.interrupt import Interrupter, ToolCancelled

_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
_send = _PROTOTYPE(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
_take_back = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)
"""With a null pointer: whatever was sent to that thread and has not been raised is forgotten."""

_armed_threads: dict[int, "ThreadInterrupter"] = {}


class Interrupted(ToolCancelled):
    """What is sent into a thread. Made when it is raised there, which is how its interrupter learns that it was."""

    def __init__(self) -> None:
        super().__init__()
        if (interrupter := _armed_threads.get(threading.get_ident())) is not None:
            interrupter.struck()


class ThreadInterrupter(Interrupter):
    """Interrupts the thread that it was made in. One for each call."""

    def __init__(self) -> None:
        super().__init__(threading.get_ident())
        self._thread = threading.get_ident()
        self._lock = threading.RLock()  # a finalizer may ask for its own thread's interrupt
        self._sent = False

    def interrupt(self, request_id: UUID, *, insist: bool = False) -> None:
        with self._lock:
            self._target, self._insisting = request_id, insist
            if not self._sent and self._is_due(sys._current_frames().get(self._thread)):
                self._sent = True
                _send(self._thread, Interrupted)

    def struck(self) -> None:
        """It was raised."""
        self._armed = None
        self.raised = True

    def _arm(self, request_id: UUID) -> None:
        self._sent = False
        _armed_threads[self._thread] = self
        self._armed = request_id

    def _disarm(self) -> None:
        with self._lock:
            _take_back(self._thread, None)
            super()._disarm()
            _armed_threads.pop(self._thread, None)

    def _enter_shield(self) -> None:
        with self._lock:
            _take_back(self._thread, None)
            self._sent = self._sent and self.raised
            super()._enter_shield()

    def _leave_shield(self) -> None:
        with self._lock:
            super()._leave_shield()
