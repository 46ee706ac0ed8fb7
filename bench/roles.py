"""The roles of a site's processes (server, worker, tools) and the resources that each role used.

The usage of PostgreSQL covers only open connections, and is only known if PostgreSQL runs on this machine.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.stack import Stack

SERVER = "server"
WORKER = "worker"
TOOLS = "tools"
ROLES = (SERVER, WORKER, TOOLS)
POSTGRESQL = "PostgreSQL"
COSTING = (*ROLES, POSTGRESQL)
"""The roles whose resources are measured."""


def by_pid(stack: Stack) -> dict[int, str]:
    """Return the role of every process of a running site."""
    servers = {server.pid for server in stack.servers}
    main = stack.worker_process().pid
    every = {child.pid for pid in (*servers, main) for child in psutil.Process(pid).children(recursive=True)}
    return dict.fromkeys(every, TOOLS) | dict.fromkeys(servers, SERVER) | {main: WORKER}


@dataclass(frozen=True, slots=True)
class Used:
    """The resources that each role has used since its processes began."""

    cpu_seconds: Counter[str]
    wake_ups: Counter[str]
    """How often a thread gave up its processor to wait."""

    def since(self, before: "Used") -> "Used":
        return Used(
            Counter({role: self.cpu_seconds[role] - before.cpu_seconds[role] for role in COSTING}),
            Counter({role: self.wake_ups[role] - before.wake_ups[role] for role in COSTING}),
        )


def used(stack: Stack) -> Used:
    cpu, wake_ups = Counter[str](), Counter[str]()
    for pid, role in (by_pid(stack) | dict.fromkeys(_backends(stack), POSTGRESQL)).items():
        with suppress(psutil.Error, OSError):
            times = psutil.Process(pid).cpu_times()
            cpu[role] += times.user + times.system
            wake_ups[role] += sum(_waits(status.read_text()) for status in Path(f"/proc/{pid}/task").glob("*/status"))
    return Used(cpu, wake_ups)


def ports(stack: Stack) -> dict[int, str]:
    """Return the role of the process that uses each local TCP port."""
    found = {}
    for pid, role in by_pid(stack).items():
        with suppress(psutil.Error):
            for connection in psutil.Process(pid).net_connections("tcp"):
                found[connection.laddr.port] = role
    return found


def _backends(stack: Stack) -> Iterator[int]:
    """Yield the ids of the PostgreSQL processes that serve the site's database."""
    if (url := stack.environment.get("MCPSITE_DATABASE")) is None:
        return
    name = urlsplit(url).path.strip("/")
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() == "postgres" and name in " ".join(process.cmdline()).split():
                yield process.pid


def _waits(status: str) -> int:
    """Return the number of voluntary context switches from the status file of a thread in `/proc`."""
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("voluntary_ctxt_switches"))
