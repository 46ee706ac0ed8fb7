"""Boot ids: random for each process start, but for their node, which names the numbering that its process id is from.

Each container numbers its processes from 1, and a host name does not say whose numbers are meant: containers on their
host's network have its name, replicas may be given one. Refuses to say that a process is gone whose number is not ours.
"""

import hashlib
import os
import secrets
import socket
import sys
from functools import cache
from pathlib import Path
from uuid import UUID, uuid4

import psutil

NODE_BITS = 48
_KERNEL_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def new() -> UUID:
    """For a process that begins here."""
    return UUID(int=uuid4().int >> NODE_BITS << NODE_BITS | _node())


def is_numbered_here(boot_id: UUID) -> bool:
    """Whether the process id of what began as `boot_id` means the same process here."""
    return boot_id.node == _node()


def is_gone(boot_id: UUID, pid: int) -> bool:
    """Whether the process that began as `boot_id` is known to have ended: its id is of our numbering, and free."""
    return is_numbered_here(boot_id) and not psutil.pid_exists(pid)


@cache
def _node() -> int:
    """This process's pid namespace, which is one of this boot of its kernel; of a fork the same."""
    digest = hashlib.sha256(_numbering().encode()).digest()
    return int.from_bytes(digest[: NODE_BITS // 8])


def _numbering() -> str:
    if sys.platform != "linux":
        return socket.gethostname()
    try:
        return f"{_KERNEL_BOOT_ID.read_text('ascii')}/{os.stat(_PID_NAMESPACE).st_ino}"
    except OSError:  # a sandbox that does not tell: nobody's numbers are known to be ours
        return secrets.token_hex()
