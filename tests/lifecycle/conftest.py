"""Real database files, the real embedded broker, and fixtures for workers and servers."""

from pathlib import Path
from uuid import UUID

import pytest

from mcp_app import databases
from mcp_app.states import ProcessRole
from tests.support import rows


def pytest_collection_modifyitems(items):
    stored = pytest.mark.django_db(transaction=True, databases="__all__")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(stored)


@pytest.fixture
def worker() -> UUID:
    """The boot id of a live worker process."""
    return rows.alive(ProcessRole.WORKER)


@pytest.fixture
def server() -> UUID:
    """The boot id of a live server process."""
    return rows.alive(ProcessRole.SERVER)


@pytest.fixture
def snapshots(monkeypatch):
    """New connections have MySQL's usual isolation level.

    A transaction sees the rows that there were at its first ordinary read.
    """
    if databases.connection().vendor != "mysql":
        pytest.skip("an isolation level of MySQL")
    monkeypatch.setitem(databases.connection().settings_dict["OPTIONS"], "isolation_level", "repeatable read")
