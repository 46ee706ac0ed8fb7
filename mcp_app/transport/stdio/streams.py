"""Reserve standard input and output for the protocol.

From then on, anything that prints (tools, Django, Celery, warnings, subprocesses) prints to
standard error, and anything that reads standard input finds it empty. Child processes do not
inherit the protocol's streams.
"""

import os
import sys
from dataclasses import dataclass
from functools import cache

_STDIN, _STDOUT, _STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class StandardStreams:
    """The file descriptors of the protocol.

    Programs that this process starts do not inherit them.
    """

    incoming: int
    outgoing: int


def claim_early() -> None:
    """Reserve the streams if this process is `manage.py mcp stdio`.

    A site's code may print while it is loaded.
    """
    if sys.argv[1:3] == ["mcp", "stdio"]:
        claim()


@cache
def claim() -> StandardStreams:
    """Reserve standard input and output for the protocol. Later calls return the same streams.

    Text that was printed before and is still in `sys.stdout`'s buffer goes to standard error too.
    """
    streams = StandardStreams(incoming=os.dup(_STDIN), outgoing=os.dup(_STDOUT))  # not inheritable
    os.dup2(_STDERR, _STDOUT)
    sys.stdout.flush()
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, _STDIN)
    os.close(empty)
    return streams
