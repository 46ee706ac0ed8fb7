"""Subscribers to changes of subjects, such as a list of tools or one resource.

A subject has a version in the database. The table has the last known version of each subject once,
and the subscribers of each, so that unchanged subjects cost nothing however many subscribers they
have. `RowWatcher` reads the versions.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from mcp_app.lifecycle.requests.observation import Subject


class Subscriber(Protocol):
    """Is notified about changes."""

    def changed(self, subject: Subject, version: int) -> None:
        """Take note of a new version. Must return at once, and must not join or leave a table."""


class ChangeListener:
    """One client's wait for changes of some subjects."""

    def __init__(self, leave: Callable[["ChangeListener"], None]) -> None:
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
        """Make `next` return at once from now on."""
        self.ended = True
        self._moved.set()

    async def next(self) -> set[Subject]:
        """Wait for a change.

        Return the subjects changed since the last call, or none after `end`.
        """
        await self._moved.wait()
        return self.take()

    def take(self) -> set[Subject]:
        """Return the subjects that have changed since the last time, without waiting."""
        changed, self._changed = self._changed, set()
        if not self.ended:
            self._moved.clear()
        return changed

    def close(self) -> None:
        self._leave(self)


class ChangeTable:
    """The table of a server process. All methods are called on one event loop."""

    def __init__(self) -> None:
        self.versions: dict[Subject, int] = {}
        """The last known version of each subject that has subscribers."""
        self._subscribers: dict[Subject, set[Subscriber]] = {}

    def join(self, subscriber: Subscriber, subjects: Collection[Subject], current: Mapping[Subject, int]) -> None:
        """Notify `subscriber` about changes after the versions in `current`.

        Call `take` with them first.
        """
        for subject in subjects:
            self.versions.setdefault(subject, current.get(subject, 0))
            self._subscribers.setdefault(subject, set()).add(subscriber)

    def leave(self, subscriber: Subscriber, subjects: Collection[Subject]) -> None:
        """Stop notifying `subscriber`. Does nothing if it has not joined."""
        for subject in subjects:
            if (others := self._subscribers.get(subject)) is not None:
                others.discard(subscriber)
                if not others:
                    del self._subscribers[subject], self.versions[subject]

    def take(self, current: Mapping[Subject, int]) -> None:
        """Notify the subscribers of subjects whose version differs.

        Subjects without a version are unchanged.
        """
        for subject, version in current.items():
            known = self.versions.get(subject)
            if known is not None and known != version:
                self.versions[subject] = version
                for subscriber in self._subscribers[subject]:
                    subscriber.changed(subject, version)
