"""Records each call that was sent, and the responses that its client received."""

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Call:
    """One call as its client saw it. Times are Unix times."""

    tag: str
    kind: str
    tool: str
    plan: str
    """How its client planned to end it, and when."""
    server: int
    """The number of the server that it was sent to."""
    sent_at: float = field(default_factory=time.time)
    ended_at: float = 0.0
    fate: str = "pending"
    """pending, answered (a result), refused (a JSON-RPC error or an HTTP status), left, cut (its stream or connection
    ended without an answer) or silent (no answer in time)."""
    answer: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    http: int = 0
    responses: int = 0
    note: str = ""
    others: list[int] = field(default_factory=list)
    """The numbers of the other servers that its client used."""
    doors: list[str] = field(default_factory=list)
    """The cancellations that were requested, with their results."""

    def end(self, fate: str, note: str = "") -> None:
        if self.fate == "pending":
            self.fate, self.note, self.ended_at = fate, note, time.time()


class Ledger:
    """All calls of a run. Many threads write to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: list[Call] = []
        self.counts: dict[str, int] = {}

    def open(self, call: Call) -> Call:
        with self._lock:
            self.calls.append(call)
        return call

    def count(self, what: str) -> None:
        """Count an event that is not a call."""
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def save(self, path: Path) -> None:
        with path.open("w") as file:
            file.writelines(json.dumps(asdict(call)) + "\n" for call in self.calls)
