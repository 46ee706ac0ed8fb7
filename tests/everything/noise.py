"""A tool and a resource that print in every way in which code can reach standard output, and on import.

Over stdio no such output may reach the client.
"""

import ctypes
import os
import subprocess
import sys
from typing import Final

from mcp_app.resources import resource
from mcp_app.tools import tool

NOISE: Final = "noise on standard output"


def make_noise() -> None:
    """Print with `sys.stdout`, with the file descriptor, in C, and in a subprocess."""
    sys.stdout.write(NOISE + "\n")
    sys.stdout.flush()
    os.write(1, f"{NOISE}\n".encode())
    ctypes.CDLL(None).puts(NOISE.encode())  # C may buffer it until the process ends
    subprocess.run(["echo", NOISE], check=True)


@tool
def noisy() -> str:
    """Print."""
    make_noise()
    return "quiet"


@resource("noise://here")
def here() -> str:
    """Print in the server's own process, and read standard input."""
    make_noise()
    return f"read {len(sys.stdin.read())} characters"


if os.environ.get("MCP_TEST_NOISE"):
    sys.stdout.write(NOISE + "\n")
