"""A reader's place on kombu's event loop: when to look at the folder.

It looks when the kernel tells of a new file, when the prefetch window moves, and every second in any case.
Where the kernel does not tell, it looks every 20 ms. It refuses to know what a look finds.
"""

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from mcp_app.embedded.folder import Folder
from mcp_app.embedded.inotify import Inotify

logger = logging.getLogger(__name__)

#: Seconds between two looks where the kernel does not tell of new files.
POLL_SECONDS = 0.02
#: Seconds between two looks that mend a lost event or a removed queue.
TEND_SECONDS = 1.0
#: Messages delivered before the event loop's other work gets its turn.
BATCH = 100


class Watch:
    """Calls `look` until it returns False, whenever there may be something, and `tend` every second.

    Idle until `start`; every method may be called before it and after `close`. `look_soon` is safe from any
    thread, the others belong to the loop's.
    """

    def __init__(self, folder: Folder, look: Callable[[], bool], tend: Callable[[], None]) -> None:
        self._folder = folder
        self._look = look
        self._tend = tend
        self._loop: Any = None
        self._inotify: Inotify | None = None
        self._bell: int | None = None
        self._watches: dict[str, int] = {}
        self._timers: list[Any] = []
        self._look_pending = False

    def start(self, loop: Any, queues: Iterable[str]) -> None:
        """Run on a `kombu.asynchronous.Hub`, watching these queues."""
        self.close()
        self._loop = loop
        self._timers = [loop.call_repeatedly(TEND_SECONDS, self._on_second)]
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
        """Watch a queue; again, after it was removed and made anew."""
        if self._inotify is None:
            return
        try:
            self._watches[queue] = self._inotify.add(self._folder.path(queue, "new"))
        except FileNotFoundError:
            self._watches.pop(queue, None)  # `tend` makes it again
        except OSError as error:
            self._poll_instead(error)

    def discard(self, queue: str) -> None:
        number = self._watches.pop(queue, None)
        if self._inotify is not None and number is not None:
            self._inotify.remove(number)

    def look_soon(self) -> None:
        """Look in the loop's next turn."""
        loop, bell = self._loop, self._bell
        if loop is None or self._look_pending:
            return
        self._look_pending = True
        if bell is None:
            loop.call_soon(self._on_turn)
        else:
            # Not `call_soon`: what that runs must not call anything soon itself, as acknowledging a revoked message
            # does, or it waits for the loop's next event or timer.
            os.eventfd_write(bell, 1)

    def close(self) -> None:
        """Leave the loop and give the kernel's descriptor back."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._close_inotify()
        self._loop = None

    def abandon(self) -> None:
        """In a forked child: close its copies of the descriptors, leave the parent's loop and watches alone."""
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
            self._tend()
        except OSError:
            logger.exception("The broker's folder cannot be tended; trying again")
        self._on_turn()

    def _on_turn(self) -> None:
        self._look_pending = False
        for _ in range(BATCH):
            if self._loop is None or not self._look():
                return
        self.look_soon()

    def _poll_instead(self, error: OSError) -> None:
        logger.warning("Looking for messages every %d ms: %s", POLL_SECONDS * 1000, error)
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
