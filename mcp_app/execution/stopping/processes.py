"""Find and kill every process that a call started, by descent and by a marker in the environment.

1. A program that a tool starts inherits the marker `MCP_REQUEST`, unless its environment is
   cleared.
2. A fork without `exec` shows the environment with which its parent was started, so the marker
   cannot be read from it. It is found by descent.
3. A daemon has no living parent between itself and the tool. On Linux it becomes a child of the
   process that runs the tool (`adopt_orphans`), so it is found by descent, too. On other systems
   its parent is init, and a daemon without the marker is not found.
"""

import ctypes
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import psutil

logger = logging.getLogger(__name__)

MARKER = "MCP_REQUEST"
"""The name of the environment variable. Its value is the request's id."""
ROUNDS = 100
PAUSE = 0.01
KILL_TIMEOUT = 5.0
ABANDONED_SECONDS = 60.0
"""How long a child must have been dead before it is reaped in place of the code that started it."""
PR_SET_CHILD_SUBREAPER = 36


def find(owner: object, *, marker: str = MARKER) -> set[int]:
    """Return the processes of this host whose environment names `owner`, such as a request id."""
    needle = f"{marker}={owner}".encode()
    return {pid for pid, environment in _environments() if needle in environment.split(b"\0")}


def owners() -> dict[int, UUID]:
    """Return every marked process of this host, with the request that started it."""
    prefix = f"{MARKER}=".encode()
    found = {}
    for pid, environment in _environments():
        if prefix in environment:
            values = [entry.removeprefix(prefix) for entry in environment.split(b"\0") if entry.startswith(prefix)]
            with suppress(ValueError):
                found[pid] = UUID(values[0].decode("ascii", "replace")) if values else UUID("")
    return found


def descendants(pid: int) -> set[psutil.Process]:
    """Return the children of a process, and their children."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def kill_all(
    owner: object,
    find_tree: Callable[[], Iterable[psutil.Process]] = tuple,
    *,
    marker: str = MARKER,
    spare: frozenset[int] = frozenset(),
    rounds: int = ROUNDS,
) -> bool:
    """Kill the processes that `find_tree` returns or whose environment names `owner`, until none is
    left.

    Return whether none is left. There are at most `rounds` rounds, `PAUSE` apart: a process in a
    system call may not die, and a process of another user cannot be killed. Process ids in `spare`
    are left alone. So are processes that name another owner: an earlier call in this process has
    left them.

    Processes are identified by their start time as well, because an id may have been reused.
    """
    remaining: set[psutil.Process] = set()
    # A fork shows the environment with which this process was started. That may name a request of
    # another site, if its tool started this worker.
    ours = (None, str(owner).encode(), _owner(os.getpid(), marker))
    for _ in range(rounds):
        tree = {process for process in find_tree() if _owner(process.pid, marker) in ours}
        remaining = _living({*remaining, *tree, *_marked(owner, marker)}, spare)
        if not remaining:
            return True
        for process in remaining:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(PAUSE)
    remaining = _living(remaining, spare)
    if remaining:
        logger.error(
            "processes that %s %s started could not be killed: %s", marker, owner, sorted(p.pid for p in remaining)
        )
    return not remaining


def _owner(pid: int, marker: str) -> bytes | None:
    prefix = f"{marker}=".encode()
    entries = _environment(pid).split(b"\0")
    return next((entry.removeprefix(prefix) for entry in entries if entry.startswith(prefix)), None)


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
    """Return the processes that a thread of this process started.

    Empty on systems other than Linux.
    """
    found = set()
    for pid in _children_of_thread(str(native_id)):
        with suppress(psutil.NoSuchProcess):
            found.add(psutil.Process(pid))
    return found


def _children_of_thread(native_id: str) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{native_id}/children").read_text("ascii").split()]
    except OSError:
        return []


def reap(killed: Iterable[psutil.Process]) -> None:
    """Reap killed processes that are children of this one, so that no zombie is left."""
    for process in killed:
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


class Reaper:
    """Reaps adopted children that have ended and that no code waits for."""

    def __init__(self) -> None:
        self._dead_since: dict[int, float] = {}

    def reap_abandoned(self) -> None:
        """Reap children that have been dead for ABANDONED_SECONDS.

        Code that has started a child usually waits for it sooner. If it does not, the exit status
        is lost.
        """
        now = time.monotonic()
        self._dead_since = {pid: self._dead_since.get(pid, now) for pid in _dead_children()}
        for pid, dead_since in self._dead_since.items():
            if now - dead_since >= ABANDONED_SECONDS:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _dead_children() -> list[int]:
    peek = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        if os.waitid(os.P_ALL, 0, peek) is None:
            return []
        children = {pid for entry in os.listdir("/proc/self/task") for pid in _children_of_thread(entry)}
        return [pid for pid in children if os.waitid(os.P_PID, pid, peek) is not None]
    except OSError:  # no children at all, or not Linux
        return []


def kill_child(pid: int | None, owner: object) -> None:
    """Kill a child of this process and everything that it started for `owner`, and wait for its
    end.

    Does nothing if the process is no child of this one.
    """
    with suppress(psutil.Error):
        child = psutil.Process(pid)
        if pid is not None and child.ppid() == os.getpid():
            child.suspend()  # now it starts nothing more, but still adopts orphans
            kill_all(owner, lambda: descendants(child.pid))
            child.kill()
            child.wait(KILL_TIMEOUT)


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _environments() -> Iterator[tuple[int, bytes]]:
    me = os.getpid()
    for pid in psutil.pids():
        if pid != me and (environment := _environment(pid)):
            yield pid, environment


def _environment(pid: int) -> bytes:
    """Return the environment with which a process was started, or nothing if it cannot be read."""
    with suppress(psutil.Error, OSError):
        if sys.platform == "linux":
            return Path("/proc", str(pid), "environ").read_bytes()
        entries = (f"{name}={value}" for name, value in psutil.Process(pid).environ().items())
        return "\0".join(entries).encode(errors="replace")
    return b""
