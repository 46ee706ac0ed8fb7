"""Sleep in C with the GIL held, as a bad extension module may do."""

import ctypes
import time

_CLIB = ctypes.PyDLL(None)
_OPAQUE_BYTES = 256
"""More than any platform's pthread_mutex_t or pthread_cond_t."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def hold(seconds: float) -> None:
    """Block this thread and, through the GIL, every other one.

    No signal handler runs in that time: POSIX forbids pthread_cond_timedwait to return early for a signal (EINTR), and
    `PyDLL` calls without releasing the GIL. It sleeps, so that a measurement beside it is not slowed.
    """
    mutex, condition = (ctypes.create_string_buffer(_OPAQUE_BYTES) for _ in range(2))
    _CLIB.pthread_mutex_init(mutex, None)
    _CLIB.pthread_cond_init(condition, None)
    _CLIB.pthread_mutex_lock(mutex)
    until = time.time_ns() + int(seconds * 1_000_000_000)
    deadline = _Timespec(*divmod(until, 1_000_000_000))
    while time.time_ns() < until:
        _CLIB.pthread_cond_timedwait(condition, mutex, ctypes.byref(deadline))
