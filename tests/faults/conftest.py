"""Where the faults of a database can be had."""

import pytest

from mcp_app import databases


@pytest.fixture(autouse=True)
def _sqlite(request: pytest.FixtureRequest) -> None:
    """The tests of D run on SQLite: only it locks all its rows, and its triggers are what refuses."""
    if "acceptance" not in request.keywords and databases.connection().vendor != "sqlite":
        pytest.skip("this is how SQLite fails")
