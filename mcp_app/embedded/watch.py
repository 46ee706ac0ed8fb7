"""Decide when a reader on kombu's event loop checks its queues for messages.

It checks if inotify reports a new file, if `check_soon` is called, and once a second in any case.
On systems without inotify it checks every POLL_SECONDS. inotify is called through ctypes and only
shows that something has arrived; the reader lists the directory anyway.
"""

import contextlib
import ctypes
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from mcp_app.embedded.folder import Folder

logger = logging.getLogger(__name__)

#: Seconds between two checks if there is no inotify.
POLL_SECONDS = 0.02
#: Seconds between two checks that find lost events and removed queues.
MAINTAIN_SECONDS = 1.0
#: Messages that are delivered before the event loop does other work.
BATCH = 100


class FolderWatch:
    """Calls `deliver` until it returns `False`, if there may be messages, and `maintain` every
    second.

    It does nothing before `start` and after `close`. `check_soon` is safe in any thread; other
    methods belong to the loop's thread.
    """

    def __init__(self, folder: Folder, deliver: Callable[[], bool], maintain: Callable[[], None]) -> None:
        self._folder = folder
        self._deliver = deliver
        self._maintain = maintain
        self._loop: Any = None
        self._inotify: Inotify | None = None
        self._bell: int | None = None
        self._watches: dict[str, int] = {}
        self._timers: list[Any] = []
        self._is_check_pending = False

    def start(self, loop: Any, queues: Iterable[str]) -> None:
        """Run on a `kombu.asynchronous.Hub`, and watch these queues."""
        self.close()
        self._loop = loop
        self._timers = [loop.call_repeatedly(MAINTAIN_SECONDS, self._on_second)]
        try:
            self._inotify = Inotify()
        except OSError as error:
            self._poll_instead(error)
            return
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        loop.add_reader(self._inotify.fileno(), self._on_files)
        loop.add_reader(self._bell, self._on_bell)
        for queue in queues:
            self.add(queue)

    def add(self, queue: str) -> None:
        """Watch a queue, or watch it again after it was removed and created."""
        if self._inotify is None:
            return
        try:
            self._watches[queue] = self._inotify.add(self._folder.path(queue, "new"))
        except FileNotFoundError:
            self._watches.pop(queue, None)  # `maintain` creates it again
        except OSError as error:
            self._poll_instead(error)

    def discard(self, queue: str) -> None:
        number = self._watches.pop(queue, None)
        if self._inotify is not None and number is not None:
            self._inotify.remove(number)

    def check_soon(self) -> None:
        """Check for messages in the loop's next turn."""
        loop, bell = self._loop, self._bell
        if loop is None or self._is_check_pending:
            return
        self._is_check_pending = True
        if bell is None:
            loop.call_soon(self._on_turn)
        else:
            # Not `call_soon`: if a callback calls `call_soon` itself, as acknowledging a revoked
            # message does, the second one waits for the loop's next event or timer.
            os.eventfd_write(bell, 1)

    def close(self) -> None:
        """Leave the loop, and close the descriptors."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._close_inotify()
        self._loop = None

    def abandon(self) -> None:
        """Close copied descriptors in a forked process.

        The parent's loop and watches are not changed.
        """
        if self._inotify is not None:
            self._inotify.close()
        if self._bell is not None:
            os.close(self._bell)
        self._inotify = self._bell = self._loop = None
        self._timers.clear()
        self._watches.clear()

    def _on_files(self) -> None:
        if self._inotify is not None:
            self._inotify.drain()
        self._on_turn()

    def _on_bell(self) -> None:
        if self._bell is not None:
            os.eventfd_read(self._bell)
        self._on_turn()

    def _on_second(self) -> None:
        try:
            self._maintain()
        except OSError:
            logger.exception("Maintenance of the broker's folder failed; trying again")
        self._on_turn()

    def _on_turn(self) -> None:
        self._is_check_pending = False
        for _ in range(BATCH):
            if self._loop is None or not self._deliver():
                return
        self.check_soon()

    def _poll_instead(self, error: OSError) -> None:
        logger.warning("Polling for messages every %d ms: %s", POLL_SECONDS * 1000, error)
        self._close_inotify()
        self._timers.append(self._loop.call_repeatedly(POLL_SECONDS, self._on_turn))

    def _close_inotify(self) -> None:
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fileno())
            self._inotify.close()
        if self._bell is not None:
            bell, self._bell = self._bell, None
            self._loop.remove_reader(bell)
            os.close(bell)
        self._inotify = None
        self._watches.clear()


_MOVED_TO = 0x0080
_CLOSE_WRITE = 0x0008
_DELETE_SELF = 0x0400
_MOVE_SELF = 0x0800
_ONLYDIR = 0x01000000
_EVENTS = _MOVED_TO | _CLOSE_WRITE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR

_libc = ctypes.CDLL(None, use_errno=True)


def available() -> bool:
    """Return whether this platform's C library has inotify."""
    return hasattr(_libc, "inotify_init1")


class Inotify:
    """Watches directories. Its descriptor is readable if a file was moved or written into one.

    Raises `OSError` if the kernel allows no more instances (`fs.inotify.max_user_instances`).
    """

    def __init__(self) -> None:
        if not available():
            raise OSError("inotify is not available here")
        self._fd: int = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def fileno(self) -> int:
        return self._fd

    def add(self, path: str) -> int:
        """Watch a directory, and return the number of the watch, which is the same if it is watched
        already.

        Raises `OSError` if the directory is missing or the kernel allows no more watches.
        """
        return _checked(_libc.inotify_add_watch(self._fd, os.fsencode(path), _EVENTS))

    def remove(self, watch: int) -> None:
        """End a watch. The watch of a removed directory has ended already."""
        _libc.inotify_rm_watch(self._fd, watch)

    def drain(self) -> None:
        """Discard pending events, so that the descriptor is readable only for later ones."""
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
