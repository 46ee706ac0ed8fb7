"""Rows in real database files, messages in the real embedded broker; what workers answered is given."""

from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mcp_app.diagnosis.examination import Seen
from mcp_app.diagnosis.findings import Finding, State
from mcp_app.diagnosis.presences import Presence


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.django_db(transaction=True, databases="__all__"))


def seen(*presences: Presence, silent: bool = False) -> Seen:
    """An examination in which these workers have answered; `silent`: the broker took no question."""
    made = Seen()
    vars(made)["presences"] = None if silent else list(presences)
    return made


def presence(boot_id: UUID | None = None, *queues: str, **said: object) -> Presence:
    """What a worker answers that takes these queues."""
    values = {
        "node": "mcp@other",
        "boot_id": boot_id or uuid4(),
        "hostname": "other",
        "pid": 4711,
        "pool": "prefork",
        "slots": 2,
        "queues": queues or ("mcp",),
        "runs_tools": True,
        "ahead": 0.0,
        "doubt": 0.1,
    }
    return Presence(**{**values, **said})


def only(findings: Iterable[Finding], state: State) -> Finding:
    """The one finding that there is, in that state."""
    [finding] = findings
    assert finding.state == state, finding
    assert bool(finding.remedy) == (state != State.OK)
    return finding


Look = Callable[[Seen], object]
