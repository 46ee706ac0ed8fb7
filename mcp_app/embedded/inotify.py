"""A directory watch on Linux's inotify, through ctypes.

It owns one kernel descriptor and says only "something arrived": names and event records are dropped,
because the reader lists the directory anyway. It refuses to know what a message is.
"""

import contextlib
import ctypes
import os

_MOVED_TO = 0x0080
_CLOSE_WRITE = 0x0008
_DELETE_SELF = 0x0400
_MOVE_SELF = 0x0800
_ONLYDIR = 0x01000000
_EVENTS = _MOVED_TO | _CLOSE_WRITE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR

_libc = ctypes.CDLL(None, use_errno=True)


def available() -> bool:
    """Whether this platform's C library has inotify at all."""
    return hasattr(_libc, "inotify_init1")


class Inotify:
    """Watches directories; readable whenever a file was moved or written into one of them.

    Raises OSError where the kernel refuses an instance (`fs.inotify.max_user_instances`).
    """

    def __init__(self) -> None:
        if not available():
            raise OSError("inotify is not available here")
        self._fd: int = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def fileno(self) -> int:
        return self._fd

    def add(self, path: str) -> int:
        """Watch a directory and return the watch's number; the same directory gives the same number.

        Raises OSError when the directory is missing or the kernel's watch limit is reached.
        """
        return _checked(_libc.inotify_add_watch(self._fd, os.fsencode(path), _EVENTS))

    def remove(self, watch: int) -> None:
        """Stop watching; a watch whose directory is gone has already ended."""
        _libc.inotify_rm_watch(self._fd, watch)

    def drain(self) -> None:
        """Forget the pending events, so that the descriptor becomes readable only for later ones."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._fd, 65536):
                pass

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
