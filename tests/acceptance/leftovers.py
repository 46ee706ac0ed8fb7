"""The asserts that all faults have in common: a test leaves nothing on a site, however its requests ended.

The site's own processes are not checked here but when the site is stopped (`Stack.close`).
"""

import time
from typing import Final

from mcp_app.execution.stopping.processes import MARKER
from tests.support.site import programs, wire
from tests.support.site.stack import Server, Stack
from tests.support.waiting import eventually

PROMPT: Final = 1.0
"""Seconds for `server/discover`. Later answers are only reported, because the machine is shared."""


class Discoveries:
    """The seconds in which the servers answered `server/discover` after each test."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def add(self, server: Server) -> None:
        connection = wire.Connection(server.port)
        started = time.perf_counter()
        connection.post(wire.message("server/discover"))
        assert connection.result()["capabilities"]
        self.seconds.append(time.perf_counter() - started)
        connection.close()

    def summary(self) -> str:
        late = sum(taken > PROMPT for taken in self.seconds)
        return f"{len(self.seconds)} times, {max(self.seconds, default=0.0) * 1000:.0f} ms at most, {late} beyond 1 s"


def assert_none(stack: Stack, discoveries: Discoveries) -> None:
    """Assert that no open request, process of a tool, transaction or lock is left, and that every server answers."""
    stack.settle()
    eventually(lambda: not _tools_processes(stack), lambda: f"no tool's process is left, but {_tools_processes(stack)}")
    eventually(lambda: not stack.ask("held"), lambda: f"nothing is held in the database, but {stack.ask('held')}")
    for server in stack.servers:
        discoveries.add(server)


def _tools_processes(stack: Stack) -> list[str]:
    started = programs.processes_of(stack.data) & programs.with_variable(MARKER)
    return [f"{pid} {programs.command_line(pid)}" for pid in started]
