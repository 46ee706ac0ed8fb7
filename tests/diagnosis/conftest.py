"""Real database files and the real embedded broker. The answers of workers are made up."""

from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mcp_app.diagnosis.examination import Finding, SharedFacts, State
from mcp_app.diagnosis.worker_ping import WorkerAnswer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.django_db(transaction=True, databases="__all__"))


def shared(*worker_answers: WorkerAnswer, silent: bool = False) -> SharedFacts:
    """The shared facts if these workers have answered, or if the broker is `silent`."""
    made = SharedFacts()
    vars(made)["worker_answers"] = None if silent else list(worker_answers)
    return made


def answer(boot_id: UUID | None = None, *queues: str, **said: object) -> WorkerAnswer:
    """The answer of a worker that consumes these queues."""
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
    return WorkerAnswer(**{**values, **said})


def only(findings: Iterable[Finding], state: State) -> Finding:
    """Return the only finding, and assert its state."""
    [finding] = findings
    assert finding.state == state, finding
    assert bool(finding.remedy) == (state != State.OK)
    return finding


CheckFunction = Callable[[SharedFacts], object]
