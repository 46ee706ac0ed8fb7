"""What every client was told: one record for each call that was sent, whatever came of it."""

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Call:
    """One call, from its client's side. Times are unix times."""

    tag: str
    kind: str
    tool: str
    plan: str
    """How its client meant to end it, and when."""
    server: int
    """The number of the server that it was sent to."""
    sent_at: float = field(default_factory=time.time)
    ended_at: float = 0.0
    fate: str = "pending"
    """answered (a result), refused (a JSON-RPC error or an HTTP status), left, cut (its stream or connection ended
    without an answer), silent (nothing came for too long)."""
    answer: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    http: int = 0
    responses: int = 0
    note: str = ""
    others: list[int] = field(default_factory=list)
    """Servers that it also spoke to."""
    doors: list[str] = field(default_factory=list)
    """Cancellations that were asked for, and what came of asking."""

    def end(self, fate: str, note: str = "") -> None:
        if self.fate == "pending":
            self.fate, self.note, self.ended_at = fate, note, time.time()


class Ledger:
    """All calls of a run; written from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: list[Call] = []
        self.counts: dict[str, int] = {}

    def open(self, call: Call) -> Call:
        with self._lock:
            self.calls.append(call)
        return call

    def count(self, what: str) -> None:
        """Something that is no call."""
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def save(self, path: Path) -> None:
        with path.open("w") as file:
            file.writelines(json.dumps(asdict(call)) + "\n" for call in self.calls)
