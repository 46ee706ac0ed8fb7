"""The standard streams of a process that speaks a protocol on them: kept for the protocol, closed to everybody else.

Whatever prints from then on (tools, Django, Celery, warnings, subprocesses) prints to standard error, and whatever
reads standard input finds it empty. Refuses to let a child process inherit the protocol's streams.
"""

import os
import sys
from dataclasses import dataclass
from functools import cache

_STDIN, _STDOUT, _STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Streams:
    """Two file descriptors that only this process has."""

    incoming: int
    outgoing: int


def claim_early() -> None:
    """Claim them if this process is `manage.py mcp stdio`: a site's code may print while it is loaded."""
    if sys.argv[1:3] == ["mcp", "stdio"]:
        claim()


@cache
def claim() -> Streams:
    """Take standard input and output for the protocol; once, however often it is called.

    What was printed before and waits in `sys.stdout`'s buffer goes to standard error as well.
    """
    streams = Streams(incoming=os.dup(_STDIN), outgoing=os.dup(_STDOUT))  # not inheritable
    os.dup2(_STDERR, _STDOUT)
    sys.stdout.flush()
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, _STDIN)
    os.close(empty)
    return streams
