"""What holds on MySQL and MariaDB only."""

from collections.abc import Iterator

import pytest

from mcp_app import databases
from mcp_app.checks.databases import check_characters


@pytest.fixture(autouse=True)
def _on_mysql() -> None:
    if databases.connection().vendor != "mysql":
        pytest.skip("this is how mysql works")


@pytest.fixture
def latin_database() -> Iterator[None]:
    with databases.connection().cursor() as cursor:
        cursor.execute("ALTER DATABASE CHARACTER SET latin1")
        yield
        cursor.execute("ALTER DATABASE CHARACTER SET utf8mb4")


@pytest.mark.usefixtures("latin_database")
def test_a_database_of_few_characters_is_found_before_its_tables_are_made() -> None:
    [found] = check_characters(databases=[databases.connection().alias])
    assert found.id == "mcp_app.E035"
    assert "latin1" in found.msg
    assert "CHARACTER SET utf8mb4" in str(found.hint)


def test_a_database_of_all_characters_passes() -> None:
    assert check_characters(databases=[databases.connection().alias]) == []
