"""The contents of a folder, to compare before and after a call; and files that block every process that opens them."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.execution.site import eventually

needs_leases = pytest.mark.usefixtures("leases")


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and bytes of every path below `folder`."""
    return {
        path.relative_to(folder).as_posix(): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


def take_lease(descriptor: int) -> bool:
    """Try to take a lease, and return whether it was free. Raises `OSError` if the file system has no leases."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return False
    return True


class Held:
    """A file that other processes can open only after it is released: until then the kernel blocks them.

    See fcntl(2), "Leases".
    """

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(path, os.O_RDWR)
        fcntl.fcntl(self._descriptor, fcntl.F_SETSIG, signal.SIGURG)  # ignored by default, unlike SIGIO
        # A process that has just closed the file may still have it open for a moment.
        eventually(self._take, f"a lease on {path}")

    def await_opening(self) -> None:
        """Wait until another process is blocked because it opens the file."""
        assert self._descriptor is not None
        descriptor = self._descriptor
        eventually(lambda: fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_WRLCK, "the opening of a held file")

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take(self) -> bool:
        assert self._descriptor is not None
        return take_lease(self._descriptor)


@contextmanager
def held(path: Path) -> Iterator[Held]:
    file = Held(path)
    try:
        yield file
    finally:
        file.release()
