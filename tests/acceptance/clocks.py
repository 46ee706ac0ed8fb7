"""Clocks that are wrong: the time of day of a program and all it starts is moved, their monotonic clocks are not.

By a library of a few lines of C: libfaketime breaks the sleeping of Python, which waits for a time of another clock.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("skewed_clock.c")


class Clock:
    """The time of day of the programs that have it in their environment."""

    def __init__(self, path: Path, seconds: int = 0) -> None:
        """`seconds` ahead of the true time. Skips where there is no C compiler; fails where there has to be one."""
        compiler = shutil.which("cc")
        if compiler is None:
            why = "NO C compiler (apt install gcc libc6-dev): no clock was moved"
            pytest.fail(why) if os.environ.get("MCP_REQUIRE_ENGINES") == "1" else pytest.skip(why)
        library = path.with_suffix(".so")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)], check=True)
        self._path = path
        self.set(seconds)
        self.environment = {"LD_PRELOAD": str(library), "SKEW_FILE": str(path)}

    def set(self, seconds: int) -> None:
        draft = self._path.with_suffix(".draft")
        draft.write_text(str(seconds))
        draft.rename(self._path)
