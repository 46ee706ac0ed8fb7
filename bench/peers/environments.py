"""Creates the peers' environments in `.bench`, from pinned lists. If a list changes, its environment is created again.

A list contains all dependencies and pip resolves none, so that a new release of a dependency does not change a result.
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
    """A peer's packages could not be installed. The message gives the reason."""


def python(name: str, folder: Path = FOLDER) -> str:
    """Return the interpreter of an environment. Creates the environment if necessary. Raises `NoEnvironmentError`."""
    place = folder / name
    interpreter = place / "bin" / "python"
    if not is_made(name, folder):
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place)
        _install(interpreter, REQUIREMENTS / f"{name}.txt")
        (place / STAMP).write_text(_stamp(name))
    return str(interpreter)


def is_made(name: str, folder: Path = FOLDER) -> bool:
    """Whether the environment exists and was made from the current list."""
    stamp = folder / name / STAMP
    return stamp.exists() and stamp.read_text() == _stamp(name)


def pinned() -> dict[str, list[str]]:
    """Return the pinned packages of each environment."""
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
