"""Several files replaced together: drafts are staged beside them, then all take their places, or none does.

A crash of the process in between leaves the drafts and the originals in the hidden folder `.staged-…`.
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
    """A file, what it was when it was read, its new content staged as `draft`, and where the original is kept."""

    path: Path
    before: bytes
    draft: Path
    original: Path


class NotRestoredError(ToolError):
    """Some files could not be replaced, and not all of the others could be put back: the originals are still staged."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold off everybody else who changes `folder` so. Raises ToolError where somebody does already."""
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
    """A place for drafts on the file system of `folder`; it goes with the block."""
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
    """Write the new content of `path` in `place`, with the mode and, where that is allowed, the owner of `path`."""
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
    """Put every draft in its place, reporting how many are. To be called where nothing interrupts it.

    Raises ToolError where one cannot be replaced or has changed since it was read: then all are as they were.
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
