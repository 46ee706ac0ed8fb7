"""The limit of open files, in a process of its own for each test."""

import subprocess
import sys
from typing import Final

import pytest

LIMIT: Final = 64
OPEN_ALL: Final = """
import os, resource
from mcp_app import descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
"""


def run(*lines: str) -> str:
    """Run these lines in a new process, and return their output."""
    program = "\n".join([OPEN_ALL, *lines])
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.fault("I4")
def test_I4_connections_leave_half_of_a_low_limit_and_requests_a_quarter() -> None:
    said = run(
        "rooms, opened = [], []",
        "while len(opened) < 100:",
        "    rooms.append((descriptors.has_capacity_for_connections(), descriptors.has_capacity_for_requests()))",
        "    try: opened.append(os.open(os.devnull, os.O_RDONLY))",
        "    except OSError as error:",
        "        print(opened[0], *(sum(room) for room in zip(*rooms)), descriptors.are_exhausted(error))",
        "        break",
    )
    first, connections, requests, are_exhausted = said.split()
    assert int(first) + int(connections) == LIMIT - 32
    assert int(first) + int(requests) == LIMIT - 16
    assert are_exhausted == "True"


@pytest.mark.fault("I4")
def test_I4_a_limit_that_is_too_low_is_named_and_can_be_raised() -> None:
    assert "only 64 files" in run("print(descriptors.shortage(4_096))")
    assert run("print(descriptors.shortage(20))") == "None"
    assert run("descriptors.raise_limit(300)", "print(descriptors.limit(), descriptors.shortage(4_096))") == "428 None"
