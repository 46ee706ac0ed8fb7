"""Keeps file descriptors in reserve that connections cannot use (`ulimit -n`).

Every connection uses a file descriptor, and so do the database, the broker and the wake-up socket.
The system always returns the lowest free number. So if the next number is high, nearly all numbers
below it are in use.
"""

import errno
import os
import resource
import sys
from typing import Final

RESERVED: Final = 128
"""Descriptors that connections cannot use. Each thread may have database files and a connection to
the broker."""
FEW_CONNECTIONS: Final = 256
"""Below this number of possible connections a warning is logged."""


def limit() -> int:
    """Return how many descriptors the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def reserved() -> int:
    """Return how many descriptors are reserved: `RESERVED`, or half of a very low limit."""
    return min(RESERVED, limit() // 2)


def has_capacity_for_connections() -> bool:
    """Whether one more connection leaves the whole reserve free."""
    return _next() < limit() - reserved()


def has_capacity_for_requests() -> bool:
    """Whether half of the reserve is free, so that one more request can reach the database."""
    return _next() < limit() - reserved() // 2


def raise_limit(connections: int) -> None:
    """Raise the soft limit for this many connections, up to the hard limit.

    Only processes of this app's own commands call this.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED
    at_most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if limit() < at_most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (at_most, hard))


def shortage(connections: int) -> str | None:
    """Return a warning if the limit allows few connections, and fewer than `connections`."""
    possible = limit() - reserved()
    if possible >= min(connections, FEW_CONNECTIONS):
        return None
    return (
        f"This process may open only {limit()} files and sockets, so it serves about {possible} connections at "
        "once and refuses more with 503. Raise the limit: `ulimit -n 4096`, or LimitNOFILE= of systemd."
    )


def are_exhausted(error: BaseException) -> bool:
    """Whether an error was raised because no descriptor was free."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _next() -> int:
    """Return the next free descriptor number, or `sys.maxsize` if there is none."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return sys.maxsize if are_exhausted(error) else 0
    os.close(descriptor)
    return descriptor
