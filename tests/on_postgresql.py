"""Runs basic tests in another process, on a new PostgreSQL database, or on MariaDB (`support.site.services`)."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.site.services import ServicesMissingError, missing, own_services

ROOT = Path(__file__).parents[1]


def assert_passes(*chosen: str, **changes: str) -> None:
    """Run the tests that pytest's arguments select, and check that all pass. `changes` are of the environment."""
    try:
        with own_services() as services:
            environment = os.environ | {"MCPSITE_DATABASE": services["MCPSITE_DATABASE"]} | changes
            environment.pop("MCPSITE_DATA", None)
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL: {error}")
    assert done.returncode == 0, done.stdout
