"""Starts the real processes of a site with their output in a file, stops them by signal, and finds them.

A site's processes are found by its data folder, which is in their environment and is inherited by their children.
"""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.site.inspector import ROOT
from tests.support.waiting import eventually

STARTING: Final = 60.0
STOPPING: Final = 45.0
"""A worker that is stopped while its pool takes a message may need 30 s, because Celery's `AsynPool.flush` forgets the
message, and the pool process that has taken it waits until it is counted."""


class Program:
    """One process of a site, in a session of its own. Its output is appended to `log`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path = ROOT) -> None:
        self.command = tuple(command)
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def says(self, pattern: str, within: float = STARTING) -> re.Match[str]:
        """Wait until the output matches a pattern, and return the match."""

        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.output())
            assert match or not self.ended, f"it ended by itself:\n{self.output()}"
            return match

        match = eventually(found, f"{pattern!r} in {self.log}", within)
        assert match is not None
        return match

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """Send SIGINT to the whole process group, as Ctrl-C in a terminal does."""
        os.killpg(self.pid, signal.SIGINT)

    def wait(self, within: float = STOPPING) -> int:
        """Wait until the process has ended, and return its exit status."""
        return self._process.wait(within)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()


def processes_of(data: Path) -> set[int]:
    """Return the live processes of the site with this data folder."""
    return marked(f"MCPSITE_DATA={data}")


def marked(variable: str) -> set[int]:
    """Return the processes that have `NAME=value` in their environment. Zombies have no environment."""
    return {pid for pid, variables in _environments() if variable.encode() in variables}


def with_variable(name: str) -> set[int]:
    """Return the processes that have the variable in their environment, with any value."""
    start = f"{name}=".encode()
    return {pid for pid, variables in _environments() if any(each.startswith(start) for each in variables)}


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                yield int(entry), Path("/proc", entry, "environ").read_bytes().split(b"\0")


def command_line(pid: int) -> str:
    with suppress(OSError):
        return Path("/proc", str(pid), "cmdline").read_text().replace("\0", " ")
    return ""


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    with suppress(OSError):
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def listens(port: int) -> bool:
    """Return whether a process accepts connections on this local port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_connected(port: int, peer: int) -> bool:
    """Return whether a process of this host has a TCP connection from `port` to the port `peer`."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(_ports(row) == (port, peer) and row[9] != "0" for row in rows)


def _ports(row: list[str]) -> tuple[int, int]:
    local, remote = (int(address.rpartition(":")[2], 16) for address in row[1:3])
    return local, remote


def open_files(pid: int) -> set[str]:
    """Return the targets of a process's open descriptors: paths, and names such as `socket:[4711]`."""
    found = set()
    with suppress(OSError):
        for descriptor in Path("/proc", str(pid), "fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(descriptor))
    return found


def socket_inodes(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process has open."""
    sockets = (target for target in open_files(pid) if target.startswith("socket:["))
    return {target[len("socket:[") : -1] for target in sockets}


def inodes_of_port(port: int) -> set[str]:
    """Return the inodes of this host's TCP sockets on this local port, both listening and connected."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if int(row[1].rpartition(":")[2], 16) == port and row[9] != "0"}


def peak_memory(pid: int) -> int:
    """Return the peak of the resident memory in KiB."""
    status = Path("/proc", str(pid), "status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def end_all(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
