"""What workers answer when they are asked over the broker who they are: the half of a worker that its row cannot tell.

Each answer says what that worker consumes and what time it has. Refuses to wait for those that say nothing.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from mcp_app.lifecycle import broker
from mcp_app.lifecycle.publishing import PRESENCE_COMMAND

ANSWER_SECONDS: Final = 1.5
"""What workers are given to answer: who must be asked cannot be known, so that all of it is always waited for."""


@dataclass(frozen=True, slots=True)
class Presence:
    """One worker's answer."""

    node: str
    boot_id: UUID
    hostname: str
    pid: int
    pool: str
    slots: int
    queues: tuple[str, ...]
    runs_tools: bool
    """Whether it has begun with the tools: not where it consumes none of their queues."""
    ahead: float
    """Seconds by which its clock is ahead of this machine's, give or take `doubt`."""
    doubt: float


@dataclass
class _Heard:
    asked_at: float = field(default_factory=time.time)
    presences: list[Presence] = field(default_factory=list)

    def __call__(self, answer: Mapping[str, Any]) -> None:
        now = time.time()
        for node, said in answer.items():
            if isinstance(said, Mapping) and "boot_id" in said:
                self.presences.append(_presence(node, said, self.asked_at, now))


def ask() -> list[Presence]:
    """All workers of the site that answer in time, by their nodes' names. Raises broker.SilentBrokerError."""
    heard = _Heard()
    broker.ask(PRESENCE_COMMAND, ANSWER_SECONDS, heard)
    return sorted(heard.presences, key=lambda presence: presence.node)


def _presence(node: str, said: Mapping[str, Any], asked_at: float, heard_at: float) -> Presence:
    return Presence(
        node=node,
        boot_id=UUID(said["boot_id"]),
        hostname=said["hostname"],
        pid=said["pid"],
        pool=said["pool"],
        slots=said["slots"],
        queues=tuple(said["queues"]),
        runs_tools=said["runs_tools"],
        ahead=said["time"] - (asked_at + heard_at) / 2,
        doubt=(heard_at - asked_at) / 2,
    )
