"""What one reader takes its messages from: listings of its queues, oldest first. Refuses to know what a message is."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from mcp_app.embedded.folder import Folder

T = TypeVar("T")


class Backlog(Generic[T]):
    """The messages that wait in a folder's queues; `parse` reads a file, and raises for one that is no message."""

    def __init__(self, folder: Folder, parse: Callable[[bytes], T]) -> None:
        self._folder = folder
        self._parse = parse
        self._listed: dict[str, deque[str]] = {}

    def take(self, queue: str, max_age: float | None) -> T | None:
        """Take the oldest message; None when there is none. A fresh listing drops what is over `max_age` seconds old.

        A listing is used up before the next, as long queues are slow to list.
        """
        listed = self._listed.setdefault(queue, deque())
        if (message := self._take_listed(queue, listed)) is not None:
            return message
        listed.extend(self._folder.names(queue, max_age=max_age))
        return self._take_listed(queue, listed)

    def forget(self, queue: str) -> None:
        """Drop the listing of a queue that is consumed no more."""
        self._listed.pop(queue, None)

    def _take_listed(self, queue: str, listed: deque[str]) -> T | None:
        while listed:
            if (message := self._folder.take(queue, listed.popleft(), self._parse)) is not None:
                return message
        return None
