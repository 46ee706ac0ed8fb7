"""Run two generations of processes: `python -m tests.everything.generations SECONDS PATH STEP`.

The child starts a grandchild and waits for it; the grandchild (`--write`) takes the steps.
"""

import subprocess
import sys
import time
from pathlib import Path

from tests.everything.steps import Steps

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments: object) -> list[str]:
    """Return the command line of one generation, to be run in `ROOT`."""
    return [sys.executable, "-m", __spec__.name, *map(str, arguments)]


def main(arguments: list[str]) -> None:
    if arguments[0] != "--write":
        subprocess.run(command("--write", *arguments), cwd=ROOT, check=True)
        return
    seconds, path, step = arguments[1:]
    steps = Steps(path, float(seconds), float(step))
    while steps.remain:
        steps.take()
        time.sleep(float(step))


if __name__ == "__main__":
    main(sys.argv[1:])
