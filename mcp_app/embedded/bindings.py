"""Which queues an exchange feeds: one small file for each exchange, read by every process.

A table is replaced by a rename while a lock is held. So readers need no lock and never see half a
table. They keep a table until its file changes. How an exchange type interprets its bindings is
kombu's business.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mcp_app.embedded.folder import Folder, encode, write


class Binding(NamedTuple):
    """One row of a table, in the order in which kombu's exchange types unpack it."""

    routing_key: str
    pattern: str
    queue: str


Table = tuple[Binding, ...]
_Signature = tuple[int, int, int]


class Bindings:
    """The binding tables of one folder.

    Reading never raises. A change raises `OSError` if the disk refuses.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known: dict[str, tuple[_Signature, Table]] = {}

    def table(self, exchange: str) -> Table:
        """Return an exchange's bindings. The file is read again only if it was replaced."""
        path = self._path(exchange)
        try:
            status = os.stat(path)
        except OSError:
            return ()
        signature = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._known.get(path)
        if known is None or known[0] != signature:
            known = self._known[path] = (signature, _load(path))
        return known[1]

    def add(self, exchange: str, binding: Binding) -> None:
        self._change(self._path(exchange), lambda table: table if binding in table else (*table, binding))

    def discard(self, exchange: str, binding: Binding) -> None:
        self._change(self._path(exchange), lambda table: tuple(b for b in table if b != binding))

    def forget(self, queue: str) -> None:
        """Unbind a queue from every exchange."""
        self.forget_directory(encode(queue))

    def forget_directory(self, directory: str) -> None:
        """Unbind the queue with this directory name from every exchange."""
        for name in os.listdir(self._folder.exchanges):
            if name.endswith(".json"):
                path = os.path.join(self._folder.exchanges, name)
                self._change(path, lambda table: tuple(b for b in table if encode(b.queue) != directory))

    def _path(self, exchange: str) -> str:
        return os.path.join(self._folder.exchanges, f"{encode(exchange)}.json")

    def _change(self, path: str, change: Callable[[Table], Table]) -> None:
        with self._locked():
            before = _load(path)
            after = change(before)
            if after != before:
                written = os.path.join(self._folder.tmp, uuid.uuid4().hex)
                write(written, json.dumps(after).encode("ascii"))
                os.replace(written, path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.prepare()
        lock = os.open(os.path.join(self._folder.exchanges, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _load(path: str) -> Table:
    """Return the bindings in a file.

    A missing or damaged table is empty: workers bind again when they start.
    """
    try:
        with open(path, encoding="ascii") as file:
            return tuple(Binding(*map(str, row)) for row in json.load(file))
    except (OSError, ValueError, TypeError):
        return ()
