"""The projects for tools: the folders directly below `settings.PROJECTS`.

Names with separators, and links to other places, are rejected.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree
from typing import Annotated, Final

from django.conf import settings
from pydantic import Field

from mcp_app.tools import ToolError

SAMPLE: Final = Path(__file__).parents[1] / "sample_project"
SAMPLE_NAME: Final = "sample"
MAX_LISTED: Final = 20

ProjectName = Annotated[
    str,
    Field(min_length=1, max_length=100, description=f"name of a project on the server, such as `{SAMPLE_NAME}`"),
]


def locate(name: str) -> Path:
    """Return the folder of a project. Raises `ToolError` if it is not a folder directly below `PROJECTS`."""
    root: Path = settings.PROJECTS
    _provide_sample(root)
    if "/" not in name and "\\" not in name and name not in ("", ".", "..") and name.isprintable():
        folder = (root / name).resolve()
        if folder.parent == root and folder.is_dir():
            return folder
    known = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    listed = ", ".join(known[:MAX_LISTED]) or "none"
    raise ToolError(f"There is no project of that name. A project is named by its folder; there are: {listed}.")


def python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files below `folder` in a fixed order, without links, hidden files and virtual environments."""
    for place, _, names in _sources(folder):
        yield from (path for name in names if (path := place / name).is_file() and not path.is_symlink())


def link_out(folder: Path) -> str | None:
    """Return the first link that leads out of `folder`, relative to it, or `None`."""
    for place, folders, names in _sources(folder):
        for path in (place / name for name in (*folders, *names)):
            if path.is_symlink() and not path.resolve().is_relative_to(folder):
                return path.relative_to(folder).as_posix()
    return None


def _sources(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder with its subfolders and its Python files. Links are not followed."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_source(Path(place, name)))
        yield Path(place), folders, sorted(name for name in names if name.endswith(".py") and not name.startswith("."))


def _is_source(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in ("__pycache__", "node_modules")
    return not hidden and not (folder / "pyvenv.cfg").exists()


def _provide_sample(root: Path) -> None:
    """Create the folder of projects with the sample project, unless it exists. It is created as a whole."""
    if root.exists():
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=root.parent, prefix=".projects-"))
    copytree(SAMPLE, draft / SAMPLE_NAME, ignore=ignore_patterns("__pycache__"))
    try:
        draft.rename(root)
    except OSError:
        rmtree(draft)
        if not root.exists():  # otherwise another process was first
            raise
