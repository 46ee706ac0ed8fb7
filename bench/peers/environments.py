"""The peers' own environments: for each a folder of `.bench`, made from its pinned list, made anew when that changes.

Refuses to resolve: a list names everything, so that a later release of a dependency changes no number.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.command import NoMeasurementError
from bench.machine import ROOT

REQUIREMENTS = Path(__file__).parent / "requirements"
FOLDER = ROOT / ".bench"
STAMP = "made-from"
INSTALL_SECONDS = 600.0


class NoEnvironmentError(NoMeasurementError):
    """A peer's packages could not be installed; the text says why."""


def python(name: str, folder: Path = FOLDER) -> str:
    """The interpreter of an environment, which is made where it is missing. Raises NoEnvironmentError."""
    place = folder / name
    interpreter = place / "bin" / "python"
    if not is_made(name, folder):
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place)
        _install(interpreter, REQUIREMENTS / f"{name}.txt")
        (place / STAMP).write_text(_stamp(name))
    return str(interpreter)


def is_made(name: str, folder: Path = FOLDER) -> bool:
    """Whether the environment is there, from the list as it is now."""
    stamp = folder / name / STAMP
    return stamp.exists() and stamp.read_text() == _stamp(name)


def pinned() -> dict[str, list[str]]:
    """What each environment has."""
    return {path.stem: path.read_text().split() for path in sorted(REQUIREMENTS.glob("*.txt"))}


def _install(interpreter: Path, requirements: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "--quiet"]
    command = [*pip, "install", "--no-deps", "--requirement", str(requirements)]
    print(f"installing {requirements.name}", file=sys.stderr, flush=True)
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        raise NoEnvironmentError(f"{requirements.name} cannot be installed: {error.stderr[-500:]}") from error
    except subprocess.TimeoutExpired as error:
        raise NoEnvironmentError(f"{requirements.name} is not installed after {INSTALL_SECONDS:g} s.") from error


def _stamp(name: str) -> str:
    listed = (REQUIREMENTS / f"{name}.txt").read_bytes()
    return f"{platform.python_version()} {hashlib.sha256(listed).hexdigest()}"
