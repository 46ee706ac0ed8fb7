"""The client programs with their features and places, and the ways in which each connects."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcp_app.auth.local import local_principal
from mcp_app.lifecycle.sessions import sessions
from tests.clients.driver import Driver
from tests.support.site.inspector import ROOT
from tests.support.site.stack import CONCURRENCY, Stack
from tests.support.site.stdio import COMMAND

DRIVERS: Final = Path(__file__).with_name("drivers")
NODE: Final = DRIVERS / "node_modules/node/bin/node"
FASTMCP: Final = DRIVERS / ".venv/bin/python"

PYTHON_REASON: Final = "caller cancelled"
"""The reason that the official client sends. FastMCP's client is built on it."""
REVISIONS: Final = {"modern": "2026-07-28", "legacy": "2025-11-25"}


class ClientMissingError(Exception):
    """A client is not installed. The message names the missing file."""


@dataclass(frozen=True)
class Program:
    """A client program."""

    name: str
    interpreter: Path
    script: str
    eras: Sequence[str] = ("modern", "legacy")
    own_reason: str = ""
    """The fixed reason that it sends with every cancellation, if its caller cannot set one."""
    cancels_before_leaving: bool = False
    """Whether it cancels its calls over stdio before it closes."""
    listens: bool = True
    """Whether it has `subscriptions/listen` in the modern era."""

    def require(self) -> None:
        """Raise `ClientMissingError` if the client is not installed."""
        if not self.interpreter.exists():
            install = DRIVERS.relative_to(ROOT) / "install"
            raise ClientMissingError(f"{self.interpreter.relative_to(ROOT)} is not there; {install} puts it there")

    @property
    def command(self) -> list[str]:
        return [str(self.interpreter), str(DRIVERS / self.script)]


PROGRAMS: Final = (
    Program("mcp", Path(sys.executable), "official.py", own_reason=PYTHON_REASON),
    Program(
        *("fastmcp", FASTMCP, "fastmcp_client.py"),
        own_reason=PYTHON_REASON,
        cancels_before_leaving=True,
        listens=False,
    ),
    Program("ts-client", NODE, "ts_client.mjs"),
    Program("ts-sdk", NODE, "ts_sdk.mjs", eras=("legacy",)),
)


@dataclass(frozen=True)
class Way:
    """One client in one era, over one transport, to one site."""

    program: Program
    era: str
    transport: str
    site: str

    def __str__(self) -> str:
        return f"{self.program.name}-{self.era}-{self.transport}-{self.site}"

    @property
    def subscribes(self) -> bool:
        return self.era == "legacy" or self.program.listens

    @property
    def actor(self) -> str:
        """The label of the client's principal at the server."""
        return local_principal().label if self.transport == "stdio" else "anonymous"

    def cancellation(self, reason: str) -> tuple[str, str]:
        """Return the cause and the reason that the server stores if this client cancels a call for `reason`."""
        if self.era == "modern" and self.transport == "http":
            return "disconnect", ""
        return "client", self.program.own_reason or reason

    @property
    def departure(self) -> tuple[str, str]:
        """The cause and the reason that the server stores if this client leaves during a call."""
        if self.era == "legacy" and self.transport == "http":
            return "client", sessions.ENDED
        if self.transport == "stdio" and self.program.cancels_before_leaving:
            return "client", self.program.own_reason
        return "disconnect", ""

    def connect(self, stack: Stack, port: int, marks: Mapping[str, str], log: Path) -> Driver:
        """Connect a client to the site at this port. Its processes have `marks` in their environment."""
        environment = {**stack.environment, **marks}
        return Driver(self.program.command, {"era": self.era, **self._server(port, environment)}, environment, log)

    def _server(self, port: int, environment: Mapping[str, str]) -> dict[str, Any]:
        if self.transport == "http":
            return {"url": f"http://127.0.0.1:{port}/mcp"}
        command, *arguments = (*COMMAND, CONCURRENCY)
        noisily = {**environment, "MCP_TEST_NOISE": "1"}  # its site prints while it is loaded
        return {"server": {"command": command, "args": arguments, "env": noisily, "cwd": str(ROOT)}}


def _ways() -> list[Way]:
    """Return all ways. Ways that subscribe come first, so that their indexes do not depend on the others."""
    places = (("http", "embedded"), ("stdio", "embedded"), ("http", "engines"))
    ways = [Way(program, era, *place) for place in places for program in PROGRAMS for era in program.eras]
    return sorted(ways, key=lambda way: not way.subscribes)


WAYS: Final = _ways()
