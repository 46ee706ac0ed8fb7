"""A running contender, and the amounts of each measure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.client import Client
from bench.stack import HOST, Stack


@dataclass(frozen=True, slots=True)
class Amounts:
    """The amounts of each measure in one round."""

    seconds: float = 3.0
    """The duration of one load."""
    reports: int = 100
    reporting: int = 500
    """The number of calls that report at the same time."""
    reports_each: int = 10
    streams: int = 1_000
    many_streams: int = 8_000
    changes: int = 3
    waiting: int = 500
    """The number of tools that wait at the same time."""
    cancels: int = 50
    """The number of waiting tools that are cancelled one after another."""
    abandoned: int = 3
    """The number of calls whose client leaves, one after another."""
    idle_seconds: float = 20.0
    trips: int = 200
    tasks: int = 1_000

    def quick(self) -> "Amounts":
        """Return small amounts for a trial run. Its numbers are not measurements."""
        return replace(
            self,
            seconds=0.5,
            reports=10,
            reporting=20,
            reports_each=3,
            streams=50,
            many_streams=100,
            changes=1,
            waiting=20,
            cancels=3,
            abandoned=1,
            idle_seconds=10.0,
            trips=20,
            tasks=50,
        )


@dataclass(frozen=True, slots=True)
class Target:
    """A running contender."""

    stack: Stack
    clients: Sequence[Client]
    """One client for each of its server processes."""
    statements: str = ""
    """The file with its recorded statements; empty if none are recorded."""

    @classmethod
    def of(cls, stack: Stack, path: str = "/mcp", statements: str = "") -> "Target":
        return cls(stack, [Client(HOST, port, path) for port in stack.ports], statements)

    @property
    def client(self) -> Client:
        return self.clients[0]
