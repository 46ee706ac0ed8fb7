"""Queues of message files in one directory tree: the storage under the embedded broker.

    queues/<queue>/new/     messages that wait, one file each, named so that they sort by age
    queues/<queue>/cur/     messages that a reader has claimed and is reading right now
    queues/<queue>/reader   only in transient queues: locked by whoever consumes (`readers.py`)
    exchanges/              binding tables (`bindings.py`)
    tmp/                    messages being written, directories being removed
    rejected/               files that are no messages, kept for a person to look at

It owns the two promises everything rests on: a message appears by one rename, so nobody sees half of it, and
leaves by one rename and one unlink, so nobody gets it twice. It refuses to know kombu, Celery or Django.
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
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

logger = logging.getLogger(__name__)

#: Seconds after which a claim's reader must have died between its rename and its unlink.
CLAIM_SECONDS = 60.0
#: Bytes; a larger file is not ours: messages carry ids.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

T = TypeVar("T")

_MESSAGE_NAME = re.compile(r"\A\d{20}-\d{10}-[0-9a-f]{32}\Z")
_UNSAFE = re.compile(rb"[^a-z0-9_@.-]|\A\.")
_MAX_NAME_BYTES = 160
_counter = itertools.count()


def encode(name: str) -> str:
    """A file name for a queue or exchange: readable, unlike any other name's, also where case is ignored."""
    raw = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], name.encode("utf-8", "surrogatepass"))
    if len(raw) <= _MAX_NAME_BYTES:
        return raw.decode("ascii") or "%"
    # "~" never survives above, so a shortened name equals no complete one
    return f"{raw[:64].decode('ascii')}~{sha256(raw).hexdigest()}"


class Folder:
    """The queues below `root`; any number of processes and threads may hold a `Folder` of their own.

    A queue that does not exist is empty. Writing raises OSError when the disk refuses; reading never does.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.queues = os.path.join(root, "queues")
        self.exchanges = os.path.join(root, "exchanges")
        self.tmp = os.path.join(root, "tmp")
        self.rejected = os.path.join(root, "rejected")
        self._reported: set[str] = set()

    def prepare(self) -> None:
        """Make the tree, readable by its owner alone."""
        for path in (self.root, self.queues, self.exchanges, self.tmp, self.rejected):
            os.makedirs(path, mode=0o700, exist_ok=True)

    def path(self, queue: str, *parts: str) -> str:
        return os.path.join(self.queues, encode(queue), *parts)

    def exists(self, queue: str) -> bool:
        return os.path.isdir(self.path(queue, "new"))

    def create(self, queue: str) -> None:
        for part in ("new", "cur"):
            os.makedirs(self.path(queue, part), mode=0o700, exist_ok=True)

    def put(self, queue: str, data: bytes, *, create: bool) -> bool:
        """Add one message. False: the queue does not exist, and `create` did not allow to make it."""
        name = f"{time.time_ns():020d}-{next(_counter):010d}-{uuid.uuid4().hex}"
        written, target = os.path.join(self.tmp, name), self.path(queue, "new", name)
        try:
            _write(written, data)
        except FileNotFoundError:
            self.prepare()
            _write(written, data)
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
        """Write a file where messages are written, and remove it. Raises OSError."""
        written = os.path.join(self.tmp, uuid.uuid4().hex)
        try:
            _write(written, b"")
        except FileNotFoundError:
            self.prepare()
            _write(written, b"")
        _unlink(written)

    def names(self, queue: str, *, max_age: float | None = None) -> list[str]:
        """The waiting messages, oldest first.

        On the way, what is no message is set aside, and what waited longer than `max_age` seconds dropped.
        """
        return self._names(self.path(queue, "new"), max_age)

    def drop_older(self, directory: str, seconds: float) -> None:
        """Drop what has waited too long in the queue of that directory name."""
        self._names(os.path.join(self.queues, directory, "new"), seconds)

    def directories(self) -> list[str]:
        """The encoded names of all queues."""
        return _listdir(self.queues)

    def take(self, queue: str, name: str, parse: Callable[[bytes], T]) -> T | None:
        """Claim, read and remove one message; None when another reader has it, or `parse` refused it.

        Only the reader whose unlink succeeds has the message: a claim handed back by `return_claims`
        while its reader was merely stopped is not read twice.
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
        except Exception as error:  # whatever a foreign file makes of the parser, consuming must go on
            self._set_aside(claimed, repr(error))
            return None
        return parsed if _unlink(claimed) else None

    def return_claims(self) -> None:
        """Hand messages back whose reader died while it read them, and drop what a writer left half done."""
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
        """Drop the waiting messages and say how many there were."""
        return sum(_unlink(self.path(queue, "new", name)) for name in self.names(queue))

    def remove(self, directory: str) -> None:
        """Remove a queue's directory; nobody ever sees it half removed."""
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
            self._set_aside(os.path.join(directory, name), "its name is not a message's")
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
            logger.warning("Set a file aside that is no message: %s (%s), kept as %s", path, reason, kept)

    def _report(self, path: str, reason: str) -> None:
        """Say it once: the file stays where it is and is met again at every look."""
        if path not in self._reported:
            self._reported.add(path)
            logger.error("Left a file that is no message: %s (%s)", path, reason)


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)


def _read(path: str) -> bytes:
    # neither a pipe nor a symbolic link put here by mistake may block the worker or lead it elsewhere
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
    """Seconds since the file was last renamed or written; 0 when it is gone."""
    try:
        return time.time() - os.lstat(path).st_ctime
    except OSError:
        return 0.0
