"""Everything that one worker started: found by a marker in the environment and by descent, killed until none is left.

The marker is in the worker's own environment and inherited by all below it, so it also finds what left the tree by a
double fork. Refuses to look at other users' processes.
"""

import time
from contextlib import suppress

import psutil

MARKER = "MCP_WORKER"
ROUNDS = 100
PAUSE = 0.02


def marked(token: str) -> set[int]:
    """The processes whose environment says `MCP_WORKER=<token>`; zombies have no environment."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARKER) == token:
                found.add(process.pid)
    return found


def descendants(pid: int) -> set[int]:
    """The living children of a process, theirs included."""
    with suppress(psutil.NoSuchProcess):
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return set()


def kill(token: str, *, root: int | None = None, spare: frozenset[int] = frozenset()) -> bool:
    """Kill `root`, all below it and all that carries the marker, `spare` excepted; whether none is left."""
    victims = set() if root is None else {root} | descendants(root)
    for _ in range(ROUNDS):
        victims = {pid for pid in victims | marked(token) if _is_alive(pid)} - spare
        if not victims:
            return True
        for pid in victims:
            with suppress(psutil.Error):
                psutil.Process(pid).kill()
        time.sleep(PAUSE)
    return False


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
