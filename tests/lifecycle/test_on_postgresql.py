"""The same on PostgreSQL: its locks, its types and its triggers are others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.services import ServicesMissingError, own_services

HERE = Path(__file__)


@pytest.mark.nightly
@pytest.mark.fault("G9")
@pytest.mark.engines
@pytest.mark.timeout(600)
def test_the_life_of_a_request_is_the_same_on_postgresql() -> None:
    assert_passes()


@pytest.mark.engines
@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_very_many_lives_are_the_same_on_postgresql() -> None:
    assert_passes("-m", "nightly and not engines")


def assert_passes(*options: str) -> None:
    """All of this folder's tests that the options choose."""
    try:
        with own_services() as services:
            environment = os.environ | {"MCPSITE_DATABASE": services["MCPSITE_DATABASE"]}
            environment.pop("MCPSITE_DATA", None)
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(HERE.parent)],
                cwd=HERE.parents[2],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
    except ServicesMissingError as error:
        if os.environ.get("MCP_REQUIRE_ENGINES") == "1":
            pytest.fail(str(error))
        pytest.skip(f"NO PostgreSQL: {error}")
    assert done.returncode == 0, done.stdout
