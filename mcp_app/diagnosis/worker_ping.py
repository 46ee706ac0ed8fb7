"""Ask all workers over the broker, by a remote control command like `celery inspect ping`.

A worker's row in the database has its heartbeat, but not whether it still receives messages. Its
answer shows that, and also has its queues and the time of its clock.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from mcp_app.celery_adapter import broker
from mcp_app.celery_adapter.broker import PRESENCE_COMMAND

ANSWER_SECONDS: Final = 1.5
"""How long to wait for answers. The number of workers is unknown, so this is never shorter."""


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """One worker's answer."""

    node: str
    boot_id: UUID
    hostname: str
    pid: int
    pool: str
    slots: int
    queues: tuple[str, ...]
    runs_tools: bool
    """Whether it runs tools. False if it consumed none of their queues at its start."""
    ahead: float
    """Seconds by which its clock is ahead of this machine's, plus or minus `doubt`."""
    doubt: float


def ping_workers() -> list[WorkerAnswer]:
    """Return the answers of all workers that answer in time, sorted by node name.

    Raises `broker.SilentBrokerError`.
    """
    asked_at = time.time()
    answers: list[WorkerAnswer] = []

    def collect(message: Mapping[str, Any]) -> None:
        now = time.time()
        for node, fields in message.items():
            if not isinstance(fields, Mapping) or "boot_id" not in fields:
                continue
            answer = WorkerAnswer(
                node=node,
                boot_id=UUID(fields["boot_id"]),
                hostname=fields["hostname"],
                pid=fields["pid"],
                pool=fields["pool"],
                slots=fields["slots"],
                queues=tuple(fields["queues"]),
                runs_tools=fields["runs_tools"],
                ahead=fields["time"] - (asked_at + now) / 2,
                doubt=(now - asked_at) / 2,
            )
            answers.append(answer)

    broker.ask(PRESENCE_COMMAND, ANSWER_SECONDS, collect)
    return sorted(answers, key=lambda answer: answer.node)
