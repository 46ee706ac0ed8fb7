"""Every process a tool started, found and killed: by descent, and on Linux by a marker in the environment.

Descent misses a double fork, whose parent is init; the marker misses a fork without exec. Together they miss only a
double fork without exec. Elsewhere than on Linux there is no marker: best effort, by descent.
"""

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import psutil

logger = logging.getLogger(__name__)

MARKER = "MCP_REQUEST"
ROUNDS = 100
PAUSE = 0.01


@contextmanager
def marked(request_id: UUID) -> Iterator[None]:
    """Mark the processes started inside the block as the request's."""
    os.environ[MARKER] = str(request_id)
    try:
        yield
    finally:
        os.environ.pop(MARKER, None)


def find(request_id: UUID) -> set[int]:
    """The processes of this host that carry the request's marker."""
    needle = f"{MARKER}={request_id}".encode()
    return {pid for pid, environment in _environments() if needle in environment.split(b"\0")}


def owners() -> dict[int, UUID]:
    """Every marked process of this host and the request that started it."""
    prefix = f"{MARKER}=".encode()
    found = {}
    for pid, environment in _environments():
        if prefix in environment:
            values = [entry.removeprefix(prefix) for entry in environment.split(b"\0") if entry.startswith(prefix)]
            with suppress(ValueError):
                found[pid] = UUID(values[0].decode("ascii", "replace")) if values else UUID("")
    return found


def descendants(pid: int) -> set[psutil.Process]:
    """The children of a process, theirs included."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def kill_all(request_id: UUID, tree: Iterable[psutil.Process] = ()) -> bool:
    """Kill `tree` and all that carries the request's marker, again until none is left; whether none is left.

    Processes are known by their start time, too: an id that was free for a moment may be somebody else's.
    """
    remaining = set(tree) | _marked(request_id)
    for _ in range(ROUNDS):
        if not remaining:
            return True
        for process in remaining:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(PAUSE)
        remaining = {process for process in remaining if _lives(process)} | _marked(request_id)
    logger.error("of request %s these processes could not be killed: %s", request_id, sorted(p.pid for p in remaining))
    return False


def _marked(request_id: UUID) -> set[psutil.Process]:
    found = set()
    for pid in find(request_id):
        with suppress(psutil.NoSuchProcess):
            found.add(psutil.Process(pid))
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_leftovers(request_id: UUID) -> bool:
    """From inside a worker's child: kill and reap what its tool started, itself excepted."""
    children = descendants(os.getpid())
    gone = kill_all(request_id, children)
    for child in children:
        with suppress(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)
    return gone


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _environments() -> Iterator[tuple[int, bytes]]:
    if sys.platform != "linux":
        return
    me = os.getpid()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != me:
            with suppress(OSError):
                yield int(entry), Path("/proc", entry, "environ").read_bytes()
