"""Every process that something started, found and killed: by descent, and by a marker in the environment.

Descent misses a double fork, whose parent is init; the marker misses a fork without exec. Together they miss only a
double fork without exec. Elsewhere than on Linux an environment may be unreadable: best effort there.
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
"""Its value in the environment of what a tool started is the request's id."""
ROUNDS = 100
PAUSE = 0.01
KILL_TIMEOUT = 5.0


@contextmanager
def marked(request_id: UUID) -> Iterator[None]:
    """Mark the processes started inside the block as the request's."""
    os.environ[MARKER] = str(request_id)
    try:
        yield
    finally:
        os.environ.pop(MARKER, None)


def find(owner: object, *, marker: str = MARKER) -> set[int]:
    """The processes of this host whose environment names `owner`, by default a request's id."""
    needle = f"{marker}={owner}".encode()
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


def kill_all(
    owner: object,
    tree: Iterable[psutil.Process] = (),
    *,
    marker: str = MARKER,
    spare: frozenset[int] = frozenset(),
    rounds: int = ROUNDS,
) -> bool:
    """Kill `tree` and all whose environment names `owner`, again until none is left; whether none is left.

    So many `rounds` at most, `PAUSE` apart: a process in the middle of a system call may not die.

    Processes are known by their start time, too: an id that was free for a moment may be somebody else's. The ids in
    `spare` are left alone.
    """
    remaining = _living({*tree, *_marked(owner, marker)}, spare)
    for _ in range(rounds):
        if not remaining:
            return True
        for process in remaining:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(PAUSE)
        remaining = _living({*remaining, *_marked(owner, marker)}, spare)
    logger.error("what %s %s started could not be killed: %s", marker, owner, sorted(p.pid for p in remaining))
    return False


def _marked(owner: object, marker: str) -> set[psutil.Process]:
    found = set()
    for pid in find(owner, marker=marker):
        with suppress(psutil.NoSuchProcess):
            found.add(psutil.Process(pid))
    return found


def _living(processes: Iterable[psutil.Process], spare: frozenset[int]) -> set[psutil.Process]:
    return {process for process in processes if process.pid not in spare and _lives(process)}


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children_of_thread(native_id: int) -> set[psutil.Process]:
    """The processes that a thread of this process started; none where the system does not tell: Linux does."""
    found = set()
    with suppress(OSError):
        for pid in Path(f"/proc/self/task/{native_id}/children").read_text("ascii").split():
            with suppress(psutil.NoSuchProcess):
                found.add(psutil.Process(int(pid)))
    return found


def reap(killed: Iterable[psutil.Process]) -> None:
    """Leave no zombie of those that are this process's children and nobody will wait for."""
    for process in killed:
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def kill_child(pid: int | None) -> None:
    """Kill a process that this one has started, where it is still its child, and wait for its end."""
    with suppress(psutil.Error):
        child = psutil.Process(pid)
        if pid is not None and child.ppid() == os.getpid():
            child.kill()
            child.wait(KILL_TIMEOUT)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _environments() -> Iterator[tuple[int, bytes]]:
    me = os.getpid()
    if sys.platform != "linux":
        for process in psutil.process_iter():
            if process.pid != me:
                with suppress(psutil.Error, OSError):
                    entries = (f"{name}={value}" for name, value in process.environ().items())
                    yield process.pid, "\0".join(entries).encode(errors="replace")
        return
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != me:
            with suppress(OSError):
                yield int(entry), Path("/proc", entry, "environ").read_bytes()
