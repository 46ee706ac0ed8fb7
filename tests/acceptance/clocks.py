"""Move the time of day of a program and of all programs that it starts. Their monotonic clocks stay right.

A preloaded library of a few lines of C does it. libfaketime cannot be used: it breaks `time.sleep` of Python, which
waits for a time of another clock.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("skewed_clock.c")


class Clock:
    """The time of day of the programs that are started with `environment`."""

    def __init__(self, path: Path, seconds: int = 0) -> None:
        """Set the clock `seconds` ahead of the true time.

        Without a C compiler the test is skipped, or fails if `MCP_REQUIRE_ENGINES` is 1.
        """
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
