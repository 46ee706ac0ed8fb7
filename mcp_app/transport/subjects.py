"""Who waits for changes of which subjects, from the versions that they were read at on.

One table for all of a process, so that many who wait for the same are a version and an entry each, and what did not
change costs nothing whoever waits for it. Refuses to read versions: `Tail` does.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from mcp_app.lifecycle.observation import Subject


class Subscriber(Protocol):
    """Who is told of changes."""

    def changed(self, subject: Subject, version: int) -> None:
        """A subject has a new version. Returns at once, and joins or leaves no table meanwhile."""


class Listener:
    """One client's wait for changes of some subjects, in a task of its own."""

    def __init__(self, leave: Callable[["Listener"], None]) -> None:
        self.known: dict[Subject, int] = {}
        self.ended = False
        self._leave = leave
        self._changed: set[Subject] = set()
        self._moved = asyncio.Event()

    def changed(self, subject: Subject, version: int) -> None:
        self.known[subject] = version
        self._changed.add(subject)
        self._moved.set()

    def end(self) -> None:
        """Have `next` return, now and always."""
        self.ended = True
        self._moved.set()

    async def next(self) -> set[Subject]:
        """The subjects that changed since the last time, once any has, however often each did; none once it ended."""
        await self._moved.wait()
        return self.take()

    def take(self) -> set[Subject]:
        """As `next`, without waiting; maybe none."""
        changed, self._changed = self._changed, set()
        if not self.ended:
            self._moved.clear()
        return changed

    def close(self) -> None:
        self._leave(self)


class Subjects:
    """The table. Belongs to one event loop."""

    def __init__(self) -> None:
        self._versions: dict[Subject, int] = {}
        self._subscribers: dict[Subject, set[Subscriber]] = {}

    def __bool__(self) -> bool:
        return bool(self._versions)

    @property
    def watched(self) -> Collection[Subject]:
        return self._versions.keys()

    def join(self, subscriber: Subscriber, subjects: Collection[Subject], current: Mapping[Subject, int]) -> None:
        """Tell `subscriber` of changes after `current`, which must have been taken: others may know less."""
        for subject in subjects:
            self._versions.setdefault(subject, current.get(subject, 0))
            self._subscribers.setdefault(subject, set()).add(subscriber)

    def leave(self, subscriber: Subscriber, subjects: Collection[Subject]) -> None:
        """Tell it no more; nothing where it has not joined."""
        for subject in subjects:
            if (others := self._subscribers.get(subject)) is not None:
                others.discard(subscriber)
                if not others:
                    del self._subscribers[subject], self._versions[subject]

    def take(self, current: Mapping[Subject, int]) -> None:
        """Tell of what is not as it was. What is missing was forgotten, long after its last change."""
        for subject, version in current.items():
            known = self._versions.get(subject)
            if known is not None and known != version:
                self._versions[subject] = version
                for subscriber in self._subscribers[subject]:
                    subscriber.changed(subject, version)
