"""The states in which a call may be stopped, and how it must end in each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.site.inspector import Row
from tests.support.site.stack import Stack
from tests.support.site.wire import Connection
from tests.support.waiting import eventually

STEP: Final = 0.05
LONG: Final = 60.0
SETTLED_IN: Final = 0.2
"""Seconds after its claim after which a call is certainly in the body of its tool."""
COOPERATIVE, INTERRUPT, KILL = 1, 2, 3
HARD_GRACE_MS: Final = 500.0


@dataclass(frozen=True)
class Situation:
    """A tool in the middle of its work."""

    name: str
    tool: str
    stage: int
    """The stage of stopping that is needed."""
    writes_steps: bool = True
    takes_path: bool = True
    leaves: str = ""
    """The text that the tool writes when it is stopped."""
    partial: bool = False
    """Whether the tool returns a partial result when it is stopped."""
    options: Mapping[str, Any] = field(default_factory=dict)
    begun: Callable[[Stack], bool] = lambda stack: True

    def arguments(self, steps: Path, seconds: float = LONG) -> dict[str, Any]:
        path = {"path": str(steps)} if self.takes_path else {}
        step = {"step": STEP} if self.writes_steps else {}
        return {"seconds": seconds, **path, **step, **self.options}

    def await_begun(self, stack: Stack, call: Connection, steps: Path) -> Row:
        """Wait until the tool is in the middle of its work. Return the call's row."""
        row = stack.running(call, SETTLED_IN)
        if self.writes_steps:
            eventually(steps.exists, f"{self.tool} takes a step")
        eventually(lambda: self.begun(stack), f"{self.tool} has begun")
        return row


RUNNING: Final = (
    Situation("async", "sleep", COOPERATIVE),
    Situation("blocking", "sleep_sync", INTERRUPT),
    Situation("swallowing_everything", "stubborn", KILL),
    Situation("with_grandchildren", "spawn", KILL),
    Situation("blocked_in_c", "blocked", KILL, writes_steps=False, takes_path=False),
    Situation("with_a_finally", "cleanup", INTERRUPT, writes_steps=False, leaves="finally\n"),
    Situation("cooperative", "polite", COOPERATIVE, writes_steps=False, leaves="cancelled\n", partial=True),
    Situation(
        "in_a_transaction",
        "transaction",
        INTERRUPT,
        writes_steps=False,
        takes_path=False,
        begun=lambda stack: bool(stack.ask("is locked")),
    ),
)
