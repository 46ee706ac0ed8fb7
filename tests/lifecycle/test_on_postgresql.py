"""The lifecycle on PostgreSQL, whose locks, types and triggers differ from SQLite's."""

from pathlib import Path

import pytest

from tests.on_postgresql import assert_passes

FOLDER = Path(__file__).parent


@pytest.mark.nightly
@pytest.mark.fault("G9")
@pytest.mark.engines
@pytest.mark.timeout(1800)
def test_the_life_of_a_request_is_the_same_on_postgresql() -> None:
    assert_passes(str(FOLDER))


@pytest.mark.engines
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_life_of_a_request_is_the_same_on_a_site_without_time_zones() -> None:
    assert_passes(str(FOLDER), MCP_TEST_USE_TZ="0")


@pytest.mark.engines
@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_very_many_lives_are_the_same_on_postgresql() -> None:
    assert_passes("-m", "nightly and not engines", str(FOLDER))
