"""A tool that starts a daemon."""

import subprocess
import time
from pathlib import Path

from mcp_app.tools import tool
from tests.everything import generations
from tests.everything.measuring_tools import KILLED


@tool(**KILLED)
def detach(seconds: float, path: str, step: float = 0.1) -> str:
    """Start a daemon that appends a line to the file at each step, and sleep."""
    command = generations.command("--write", seconds, Path(path).absolute(), step)
    subprocess.run(["setsid", "--fork", *command], cwd=generations.ROOT, check=True)
    time.sleep(seconds)
    return "left alone"
