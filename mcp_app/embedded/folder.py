"""Queues of message files in one directory tree: the store of the embedded broker.

    queues/<queue>/new/     messages that wait, one file each; their names sort by age
    queues/<queue>/cur/     messages that a reader has claimed and is reading
    queues/<queue>/reader   only in transient queues: locked by the consumer (`readers.py`)
    exchanges/              binding tables (`bindings.py`)
    tmp/                    messages that are being written, directories that are being removed
    rejected/               files that are no messages, kept for the operator

Two rules make this safe for any number of processes:

1. A message is written in `tmp/` and appears in `new/` by one rename. So no reader sees half of it.
2. A reader claims it by a rename to `cur/`, and has it only if its unlink succeeds. So no message
   is read twice, even if a claim was handed back because its reader seemed to be dead.

Nothing here depends on kombu, Celery or Django.
"""

import bisect
import contextlib
import itertools
import logging
import os
import re
import shutil
import stat
import time
import uuid
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

#: Seconds after which the reader of a claim must have died.
CLAIM_SECONDS = 60.0
#: A larger file is not from this app, whose messages only carry ids.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
T = TypeVar("T")
_MESSAGE_NAME = re.compile(r"\A\d{20}-\d{10}-[0-9a-f]{32}\Z")
_UNSAFE = re.compile(rb"[^a-z0-9_@.-]|\A\.")
_MAX_NAME_BYTES = 160
_counter = itertools.count()


@lru_cache(256)  # bounded, because the queues of replies have random names
def encode(name: str) -> str:
    """Return a file name for a queue or an exchange.

    It is readable, and different for each name, also on file systems that ignore case.
    """
    raw = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], name.encode("utf-8", "surrogatepass"))
    if len(raw) <= _MAX_NAME_BYTES:
        return raw.decode("ascii") or "%"
    # "~" is escaped above, so a shortened name differs from every complete one
    return f"{raw[:64].decode('ascii')}~{sha256(raw).hexdigest()}"


class Folder:
    """The queues below `root`. Each process and thread may have a `Folder` of its own.

    A queue that does not exist is empty. Writing raises `OSError` if the disk refuses; reading
    never does.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.queues = os.path.join(root, "queues")
        self.exchanges = os.path.join(root, "exchanges")
        self.tmp = os.path.join(root, "tmp")
        self.rejected = os.path.join(root, "rejected")
        self._reported: set[str] = set()

    def prepare(self) -> None:
        """Make the tree, readable by its owner only. An existing `root` keeps its mode."""
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        for path in (self.queues, self.exchanges, self.tmp, self.rejected):
            os.makedirs(path, mode=0o700, exist_ok=True)
            if os.stat(path).st_mode & 0o077:
                # If another user owns the folder, only that user can do this.
                with contextlib.suppress(PermissionError):
                    os.chmod(path, 0o700)

    def path(self, queue: str, *parts: str) -> str:
        return os.path.join(self.queues, encode(queue), *parts)

    def exists(self, queue: str) -> bool:
        return os.path.isdir(self.path(queue, "new"))

    def create(self, queue: str) -> None:
        for path in (self.path(queue), self.path(queue, "new"), self.path(queue, "cur")):
            os.makedirs(path, mode=0o700, exist_ok=True)

    def put(self, queue: str, data: bytes, *, create: bool) -> bool:
        """Add a message. Return `False` if the queue does not exist and `create` is not set."""
        name = f"{time.time_ns():020d}-{next(_counter):010d}-{uuid.uuid4().hex}"
        written, target = os.path.join(self.tmp, name), self.path(queue, "new", name)
        try:
            write(written, data)
        except FileNotFoundError:
            self.prepare()
            write(written, data)
        try:
            try:
                os.rename(written, target)
            except FileNotFoundError:
                if not create:
                    return False
                self.create(queue)
                os.rename(written, target)
        finally:
            _unlink(written)
        return True

    def try_writing(self) -> None:
        """Check that messages can be written. Raises `OSError`."""
        written = os.path.join(self.tmp, uuid.uuid4().hex)
        try:
            write(written, b"")
        except FileNotFoundError:
            self.prepare()
            write(written, b"")
        _unlink(written)

    def names(self, queue: str, *, max_age: float | None = None) -> list[str]:
        """Return the names of the waiting messages, oldest first.

        Files that are no messages are set aside. Messages older than `max_age` seconds are dropped.
        """
        return self._names(self.path(queue, "new"), max_age)

    def drop_older(self, directory: str, seconds: float) -> None:
        """Drop messages older than `seconds` from the queue in this directory."""
        self._names(os.path.join(self.queues, directory, "new"), seconds)

    def directories(self) -> list[str]:
        """Return the encoded names of all queues."""
        return _listdir(self.queues)

    def take(self, queue: str, name: str, parse: Callable[[bytes], T]) -> T | None:
        """Claim, read and remove one message.

        Return `None` if another reader has it or `parse` raises. A file that `parse` rejects is set
        aside.
        """
        claimed = self.path(queue, "cur", name)
        try:
            os.rename(self.path(queue, "new", name), claimed)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._report(claimed, f"it cannot be claimed: {error}")
            return None
        try:
            parsed = parse(_read(claimed))
        except FileNotFoundError:
            return None
        except Exception as error:  # a foreign file may raise anything, and consuming must go on
            self._set_aside(claimed, repr(error))
            return None
        return parsed if _unlink(claimed) else None

    def return_claims(self) -> None:
        """Return messages to their queues whose readers died while reading.

        Remove old unfinished files.
        """
        for queue in _listdir(self.queues):
            directory = os.path.join(self.queues, queue)
            for name in _listdir(os.path.join(directory, "cur")):
                claimed = os.path.join(directory, "cur", name)
                if _changed_seconds_ago(claimed) > CLAIM_SECONDS:
                    with contextlib.suppress(OSError):
                        os.rename(claimed, os.path.join(directory, "new", name))
        for name in _listdir(self.tmp):
            path = os.path.join(self.tmp, name)
            if _changed_seconds_ago(path) > CLAIM_SECONDS and not _unlink(path):
                shutil.rmtree(path, ignore_errors=True)

    def purge(self, queue: str) -> int:
        """Drop the waiting messages, and return their number."""
        return sum(_unlink(self.path(queue, "new", name)) for name in self.names(queue))

    def remove(self, directory: str) -> None:
        """Remove the directory of a queue. No process sees it half removed."""
        trash = os.path.join(self.tmp, uuid.uuid4().hex)
        try:
            os.rename(directory, trash)
        except FileNotFoundError:
            return
        shutil.rmtree(trash, ignore_errors=True)

    def _names(self, directory: str, max_age: float | None) -> list[str]:
        names = _listdir(directory)
        messages = sorted(name for name in names if _MESSAGE_NAME.match(name))
        for name in set(names).difference(messages):
            self._set_aside(os.path.join(directory, name), "its name is not that of a message")
        if max_age is None:
            return messages
        oldest = f"{time.time_ns() - int(max_age * 1e9):020d}"
        kept = bisect.bisect_left(messages, oldest)
        for name in messages[:kept]:
            _unlink(os.path.join(directory, name))
        return messages[kept:]

    def _set_aside(self, path: str, reason: str) -> None:
        kept = os.path.join(self.rejected, f"{time.time_ns():020d}-{uuid.uuid4().hex}")
        try:
            os.makedirs(self.rejected, mode=0o700, exist_ok=True)
            os.rename(path, kept)
        except FileNotFoundError:
            return
        except OSError as error:
            self._report(path, f"{reason}; it cannot be set aside: {error}")
        else:
            logger.warning("A file that is not a message was set aside: %s (%s), kept as %s", path, reason, kept)

    def _report(self, path: str, reason: str) -> None:
        """Log an error once for each file: the file stays, and every check meets it again."""
        if path not in self._reported:
            self._reported.add(path)
            logger.error("A file that is not a message was left in place: %s (%s)", path, reason)


class Backlog(Generic[T]):
    """The waiting messages of queues.

    `parse` reads a file, and raises for one that is no message.
    """

    def __init__(self, folder: Folder, parse: Callable[[bytes], T]) -> None:
        self._folder = folder
        self._parse = parse
        self._listed: dict[str, deque[str]] = {}

    def take(self, queue: str, max_age: float | None) -> T | None:
        """Take the oldest message, or return `None`.

        Long queues are slow to list, so a listing is used up before the next one is made. A new
        listing drops messages older than `max_age` seconds.
        """
        listed = self._listed.setdefault(queue, deque())
        for is_used_up in (False, True):
            if is_used_up:
                listed.extend(self._folder.names(queue, max_age=max_age))
            while listed:
                if (message := self._folder.take(queue, listed.popleft(), self._parse)) is not None:
                    return message
        return None

    def forget(self, queue: str) -> None:
        """Drop the listing of a queue that is no longer consumed."""
        self._listed.pop(queue, None)


def write(path: str, data: bytes) -> None:
    """Write a new file that only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)


def _read(path: str) -> bytes:
    # A pipe that was put here must not block the worker, and a symbolic link must not be followed.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= MAX_MESSAGE_BYTES:
            raise ValueError(f"not a regular file of 1 to {MAX_MESSAGE_BYTES} bytes")
        return file.read()


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _listdir(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _changed_seconds_ago(path: str) -> float:
    """Return the seconds since the file was last renamed or written, or 0 if it is gone."""
    try:
        return time.time() - os.lstat(path).st_ctime
    except OSError:
        return 0.0
