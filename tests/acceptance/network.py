"""Two hosts and a wire between them: network namespaces of this machine's kernel, so that packets can really be lost.

The first is the servers' host, where `inside` starts programs. `connect` makes connections from the client's host.
After `vanish` no packet leaves that host: no FIN, no RST, no acknowledgement. Needs Linux and root.
"""

import ctypes
import os
import secrets
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.site.wire import Connection

SERVERS_ADDRESS: Final = "10.213.7.1"
CLIENTS_ADDRESS: Final = "10.213.7.2"
NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET


class NotPermittedError(Exception):
    """No network can be made here, for the reason in the message."""


class Network:
    """The two hosts, named by their namespaces."""

    def __init__(self, servers: str, client: str) -> None:
        self.servers = servers
        self._client = client

    @property
    def inside(self) -> tuple[str, ...]:
        """The prefix of a command that runs on the servers' host."""
        return ("ip", "netns", "exec", self.servers)

    def connect(self, port: int) -> Connection:
        """Connect the client to a port of the servers' host."""
        made: list[Connection] = []

        def make() -> None:
            # A socket stays in the namespace of the thread that made it.
            with Path("/run/netns", self._client).open() as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(Connection(port, SERVERS_ADDRESS))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def vanish(self) -> None:
        """Drop all packets that the client's host sends from now on."""
        _ip("-n", self._client, "route", "add", "blackhole", SERVERS_ADDRESS)


@contextmanager
def network(**sysctls: int) -> Iterator[Network]:
    """Create the two hosts. `sysctls` are settings of the servers' host in net.ipv4. Raises `NotPermittedError`."""
    mark = secrets.token_hex(3)
    servers, client = f"mcp-servers-{mark}", f"mcp-client-{mark}"
    ends = f"s{mark}", f"c{mark}"
    try:
        for name in (servers, client):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("link", "add", ends[0], "netns", servers, "type", "veth", "peer", "name", ends[1], "netns", client)
        for name, end, address in ((servers, ends[0], SERVERS_ADDRESS), (client, ends[1], CLIENTS_ADDRESS)):
            _ip("-n", name, "address", "add", f"{address}/30", "dev", end)
            _ip("-n", name, "link", "set", end, "up")
        for name, value in sysctls.items():
            command = f"echo {value} > /proc/sys/net/ipv4/{name}"
            _run("ip", "netns", "exec", servers, "sh", "-c", command)
        yield Network(servers, client)
    finally:
        for name in (servers, client):
            if Path("/run/netns", name).exists():
                _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    if os.geteuid():
        raise NotPermittedError("only root may make network namespaces")
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
    except FileNotFoundError as error:
        raise NotPermittedError("ip is not installed (Debian: apt-get install iproute2)") from error
    except subprocess.CalledProcessError as error:
        raise NotPermittedError(f"{' '.join(command)}: {error.stderr.strip()}") from error
