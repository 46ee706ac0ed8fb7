"""Reads the rows of a stack for tests, by means of the process `answers` in the stack's environment."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.site import answers

ROOT: Final = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of the audit."""

    cause: str
    actor: str
    reason: str
    part_of: str
    outcome: str
    stage: int
    status_before: str
    status_after: str
    latency_ms: float | None
    settled: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One request. `running_for` and `ran_for` are in seconds of database time, and `finished_at` is a Unix time."""

    id: str
    status: str
    stage: int
    cancel_cause: str
    cancel_actor: str
    cancel_reason: str
    killing: bool
    result: Any
    partial_result: Any
    worker: str | None
    worker_pid: int | None
    server: str | None
    delivered: bool
    running_for: float
    ran_for: float | None
    finished_at: float | None
    error: Any
    unstoppable: bool
    story: list[str]
    stages: list[str]
    attempts: list[Attempt]

    @property
    def ended(self) -> bool:
        return self.finished_at is not None


class Inspector:
    """Starts the process `answers` and sends questions to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", answers.__name__],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def ask(self, question: str, **details: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": question, **details}) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert "answer" in said, f"{question!r} failed: {said['raised']}"
        return said["answer"]

    def row(self, **which: Any) -> Row | None:
        """Return the newest request with these column values, or `None`."""
        found = self.ask("request", **which)
        if found is None:
            return None
        attempts = [Attempt(**attempt) for attempt in found.pop("attempts")]
        return Row(**found, attempts=attempts)

    def reap(self) -> None:
        """Wait for the end of the process, which the caller has killed."""
        self._process.communicate()

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            assert self._process.wait(60) == 0
