"""Transient queues, which end with their reader: control, reply and event queues.

The consumer holds a lock on the queue's file `reader`. The kernel releases it when the process
ends, for any reason. So a queue that was declared some time ago and is not locked has lost its
reader, and is removed and unbound. This needs no clean shutdown, and an idle reader costs nothing.
"""

import fcntl
import os
import time

from mcp_app.embedded.bindings import Bindings
from mcp_app.embedded.folder import Folder, encode

#: How long a message may wait in a transient queue, and such a queue for its reader.
TRANSIENT_SECONDS = 60.0
#: Seconds between two searches for queues without a reader, by one process.
PRUNE_SECONDS = 10.0


class Readers:
    """The reader locks of this process, and the removal of queues without a reader."""

    def __init__(self, folder: Folder, bindings: Bindings) -> None:
        self._folder = folder
        self._bindings = bindings
        self._held: dict[str, int] = {}
        self._pruned_at = 0.0

    def declare(self, queue: str) -> None:
        """Create a transient queue, or mark it as just declared."""
        self._folder.create(queue)
        reader = self._folder.path(queue, "reader")
        os.close(os.open(reader, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(reader)

    def hold(self, queue: str) -> None:
        """Lock the queue as its reader, until `release` or the end of the process."""
        self.release(queue)
        while True:
            self.declare(queue)
            reader = self._folder.path(queue, "reader")
            try:
                lock = os.open(reader, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # another process has just removed it
            fcntl.flock(lock, fcntl.LOCK_SH)
            if _same_file(lock, reader):
                self._held[queue] = lock
                return
            os.close(lock)

    def holds(self, queue: str) -> bool:
        """Return whether this process holds the lock and the queue still exists."""
        lock = self._held.get(queue)
        return lock is not None and _same_file(lock, self._folder.path(queue, "reader"))

    def release(self, queue: str) -> None:
        lock = self._held.pop(queue, None)
        if lock is not None:
            os.close(lock)

    def release_all(self) -> None:
        for queue in list(self._held):
            self.release(queue)

    def remove_unread(self, queue: str) -> bool:
        """Remove and unbind a transient queue. Return `False` if it has a reader or is gone."""
        return self._remove_unread(encode(queue), 0.0)

    def prune(self) -> None:
        """Remove queues without a reader, and old messages of transient queues.

        Does this every PRUNE_SECONDS at most.
        """
        if time.monotonic() - self._pruned_at < PRUNE_SECONDS:
            return
        self._pruned_at = time.monotonic()
        self._folder.return_claims()
        for directory in self._folder.directories():
            if os.path.exists(os.path.join(self._folder.queues, directory, "reader")):
                self._folder.drop_older(directory, TRANSIENT_SECONDS)
                self._remove_unread(directory, TRANSIENT_SECONDS)

    def _remove_unread(self, name: str, older_than: float) -> bool:
        directory = os.path.join(self._folder.queues, name)
        reader = os.path.join(directory, "reader")
        try:
            lock = os.open(reader, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(lock).st_mtime < older_than:
                return False
            self._folder.remove(directory)
        except OSError:
            return False
        finally:
            os.close(lock)
        self._bindings.forget_directory(name)
        return True


def _same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False
