"""An independent model of a request's life, with which the state machine compares the lifecycle.

It is written from the specification and uses neither `states.TRANSITIONS` nor any function of the lifecycle. Each
method computes a step's outcome, its events and its audit rows. Times are the model's own seconds.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from uuid import UUID

from hypothesis import reject

OPEN = ("queued", "running", "input_required")
MARGIN = 1.0
"""Seconds by which an age must differ from a limit, so that the model can predict the database's result."""


class Reached(IntEnum):
    none, cooperative, interrupt, kill = range(4)


@dataclass
class Attempt:
    """One attempt to cancel, as the audit must record it."""

    cause: str
    actor: str
    reason: str
    outcome: str
    before: str
    after: str = ""
    stage: int = 0
    settled: bool = False


@dataclass(eq=False, repr=False)
class Life:
    """One request."""

    pk: UUID
    owner: Any
    time_limit: float
    server: UUID | None
    session: UUID | None
    submitted_at: float
    status: str = "queued"
    worker: UUID | None = None
    cancelled_by: Attempt | None = None
    stage: int = 0
    fenced: bool = False
    round: int = 0
    questions: list[str] = field(default_factory=list)
    answers: set[str] = field(default_factory=set)
    is_task: bool = False
    queued_at: float = 0.0
    deadline_at: float | None = None
    expires_at: float | None = None
    left_at: float | None = None
    finished_at: float | None = None
    result: bool = False
    story: list[tuple[str, Any]] = field(default_factory=lambda: [("transition", "queued")])
    attempts: list[Attempt] = field(default_factory=list)

    def __repr__(self) -> str:
        return " ".join(told for kind, told in self.story if kind == "transition")

    @property
    def open(self) -> bool:
        return self.status in OPEN

    def to(self, status: str, now: float, *, result: bool = False) -> str:
        assert self.open, "the model itself moves nothing that has ended"
        self.status = status
        self.story.append(("transition", status))
        self.deadline_at = None
        if not self.open:
            self.finished_at = now
            self.result = result
            if (accepted := self.cancelled_by) is not None and not accepted.settled:
                accepted.outcome = "too_late" if status == "completed" else "accepted"
                accepted.after, accepted.stage, accepted.settled = status, self.stage, True
        return status

    def claim(self, worker: UUID, now: float) -> bool:
        if self.status != "queued" or now >= self.deadline_at:
            return False
        self.worker = worker
        self.to("running", now)
        self.deadline_at = now + self.time_limit
        return True

    def say(self, *told: tuple[str, Any]) -> bool:
        """Record output of a running tool."""
        if self.status != "running":
            return False
        self.story.extend(told)
        return True

    def reach(self, stage: int) -> bool:
        if self.status != "running" or stage <= self.stage:
            return False
        self.stage = stage
        self.story.append(("stage", Reached(stage).name))
        return True

    def begin_kill(self, worker: UUID) -> bool:
        if self.status != "running" or worker != self.worker or self.cancelled_by is None or self.fenced:
            return False
        self.fenced = True
        self.reach(Reached.kill)
        return True

    def finish(self, status: str, worker: UUID | None, fenced: bool, stage: int, now: float) -> str | None:
        """End the request, for a worker or (without one) for another component that knows of the end."""
        if worker is not None and (self.status != "running" or worker != self.worker):
            return None
        if fenced != self.fenced or not self._may_end_as(status, worker):
            return None
        if status == "failed" and self.cancelled_by is not None:
            status = "cancelled"
        self.stage = max(self.stage, stage)
        return self.to(status, now, result=status in ("completed", "failed"))

    def _may_end_as(self, status: str, worker: UUID | None) -> bool:
        if status == "cancelled":
            return self.status == "running" and self.cancelled_by is not None
        if status == "lost":
            return self.status == "running"
        if self.status == "running":
            return worker is not None
        return self.open and status == "failed"

    def lose(self, now: float) -> bool:
        if self.status != "running":
            return False
        self.to("lost", now)
        return True

    def ask(self, keys: list[str], worker: UUID, now: float, patience: float, room: bool) -> str | None:
        if self.status != "running" or worker != self.worker or self.fenced:
            return None
        if self.cancelled_by is not None:
            return self.to("cancelled", now)
        if not room:
            return self.to("failed", now, result=True)
        self.story.extend(("asked", key) for key in keys)
        self.to("input_required", now)
        self.questions, self.round, self.deadline_at = list(keys), self.round + 1, now + patience
        return self.status

    def answer(self, keys: set[str], again: list[str], now: float, patience: float) -> bool:
        """Answer some open questions. Questions that are asked again make a new round."""
        deadline = self.deadline_at
        self.story.extend([("answered", tuple(sorted(keys)))] if keys else [])
        self.story.extend(("asked", key) for key in again)
        self.answers |= keys
        self.questions = [key for key in self.questions if key not in keys and key not in again] + again
        self.round += bool(again)
        if not self.questions:
            self.to("queued", now)
            self.queued_at, deadline = now, now + patience
        self.deadline_at = deadline
        return True

    def cancel(self, cause: str, actor: str, reason: str, asker: Any, now: float) -> str:
        attempt = Attempt(cause, actor, reason, self._outcome(asker), before=self.status, stage=self.stage)
        self.attempts.append(attempt)
        if attempt.outcome != "accepted":
            attempt.after, attempt.settled = self.status, True
            return attempt.outcome
        self.cancelled_by = attempt
        self.story.append(("cancel", (cause, actor, reason)))
        if self.status != "running":
            self.to("cancelled", now)
        return "accepted"

    def deny(self, cause: str, actor: str, reason: str) -> None:
        self.attempts.append(Attempt(cause, actor, reason, "denied", self.status, self.status, self.stage, True))

    def _outcome(self, asker: Any) -> str:
        if asker not in (None, self.owner):
            return "denied"
        if not self.open:
            return "too_late"
        return "accepted" if self.cancelled_by is None else "duplicate"

    def hand_over(self, now: float, ttl: float, room: bool) -> bool:
        if not self.is_task:
            if self.status not in ("queued", "running") or self.cancelled_by is not None or not room or self.fenced:
                return False
            self.is_task, self.expires_at = True, now + ttl
        elif not self.open:
            return True
        elif self.fenced:
            return False
        self.server = None
        self.story.append(("note", "task"))
        return True

    def let_go(self) -> None:
        if self.open and not self.fenced:
            self.server = None
            self.story.append(("note", "goes on"))


def older(then: float | None, now: float, limit: float) -> bool:
    """Return whether `then` is more than `limit` seconds ago. End the example if the result would be uncertain."""
    if then is None:
        return False
    if abs(now - then - limit) < MARGIN:
        reject()
    return now - then > limit
