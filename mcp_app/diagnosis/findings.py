"""What a look finds, as a value: nothing here is printed, and nothing looked at."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum


class State(StrEnum):
    """How it is with what was looked at."""

    OK = "ok"
    WARNING = "warning"
    """The site serves, and somebody should look."""
    FAILED = "failed"
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing, with numbers and units; and where it is not well, one of what to do."""

    name: str
    state: State
    found: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {**asdict(self), "state": self.state.value}


def ok(name: str, found: str) -> Finding:
    return Finding(name, State.OK, found)


def warning(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, State.WARNING, found, remedy)


def failed(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, State.FAILED, found, remedy)


def has_failed(findings: Iterable[Finding]) -> bool:
    return any(finding.state == State.FAILED for finding in findings)
