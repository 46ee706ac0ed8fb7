"""Replaces several files together: all or none.

Drafts are staged beside the files first. A crash of the process leaves the drafts and the originals in the hidden
folder `.staged-…`.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_app.tools import ToolError


@dataclass(frozen=True, slots=True)
class Replacement:
    """A file, its content when it was read, its new content in `draft`, and the place of the original."""

    path: Path
    before: bytes
    draft: Path
    original: Path


class NotRestoredError(ToolError):
    """A replacement failed, and not all files could be restored. The originals are still staged."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock `folder` for a replacement. Raises `ToolError` if another call has locked it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ToolError("Another call is changing this project. Try again when it has ended.") from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder for drafts on the file system of `folder`."""
    place = Path(tempfile.mkdtemp(dir=folder, prefix=".staged-"))
    try:
        yield place
    except NotRestoredError:
        raise
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    shutil.rmtree(place, ignore_errors=True)


def stage(place: Path, path: Path, before: bytes, after: bytes) -> Replacement:
    """Write the new content of `path` to `place`, with the mode of `path` and, if allowed, its owner."""
    descriptor, name = tempfile.mkstemp(dir=place, suffix=".draft")
    with os.fdopen(descriptor, "wb") as file:
        file.write(after)
    of = path.stat()
    with suppress(PermissionError):
        os.chown(name, of.st_uid, of.st_gid)
    os.chmod(name, stat.S_IMODE(of.st_mode))
    draft = Path(name)
    return Replacement(path, before, draft, draft.with_suffix(".original"))


def replace_all(replacements: Sequence[Replacement], report: Callable[[int], object]) -> None:
    """Replace all files, and report progress. Call this in a shield.

    Raises `ToolError` if a file cannot be replaced or has changed since it was read. Then all files are restored.
    """
    done: list[Replacement] = []
    try:
        for each in replacements:
            _replace(each)
            done.append(each)
            report(len(done))
    except BaseException as error:
        _restore(done)
        if isinstance(error, OSError):
            why = error.strerror or type(error).__name__
            raise ToolError(f"A file could not be replaced, so all files are as they were: {why}.") from error
        raise


def _replace(each: Replacement) -> None:
    if each.path.read_bytes() != each.before:
        raise ToolError(f"Somebody else changed {each.path.name} meanwhile, so all files are as they were. Try again.")
    try:
        os.link(each.path, each.original)
    except OSError:  # not every file system has links
        shutil.copy2(each.path, each.original)
    os.replace(each.draft, each.path)


def _restore(done: Sequence[Replacement]) -> None:
    left = 0
    for each in reversed(done):
        try:
            os.replace(each.original, each.path)
        except OSError:
            left += 1
    if left:
        place = done[0].original.parent.name
        raise NotRestoredError(f"{left} files could not be put back: their originals are in {place}, in the project.")
