"""The tail: the one reader of rows for every client that waits in this server process.

Woken → one query for all watched requests that were named; on a timer → for all; nobody waits → nothing. A burst of
hints is one query in flight and at most one more; where a crowd waits some time passes from one to the next. Refuses to
write rows, except the note that a response was handed over.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

from django.db import OperationalError

from mcp_app.conf import settings
from mcp_app.lifecycle import observation
from mcp_app.lifecycle.moved import Watch
from mcp_app.lifecycle.observation import Observed, Subject
from mcp_app.transport.gathered import CROWD
from mcp_app.transport.hints import Hints
from mcp_app.transport.subjects import Listener, Subjects, Subscriber
from mcp_app.transport.threads import Threads
from mcp_app.transport.upkeep import Upkeep

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""After a failed look, so that a database that is away is not pressed."""
LOOKS_APART = 0.005
"""Seconds from look to look where a crowd waits: what moves meanwhile is read by one statement."""
EVENTS_APART = 0.002
"""The same where somebody waits to hear what their call says meanwhile."""
GONE_EVERY = 5.0
"""Seconds from one question to the next whether the rows that are waited for are still there."""
DELIVERED_TOGETHER = 0.05
"""Seconds of deliveries that are noted by one statement: nobody waits for it."""


class TakenOverError(Exception):
    """Another connection follows the request now."""


class RowGoneError(Exception):
    """The request's row is there no more: its database went back to what it was before, or somebody deleted it."""


class Watcher:
    """One client's wait for one request. Holds at most one observation: the rows are the buffer of a slow client."""

    def __init__(self, tail: "Tail", request_id: UUID, watch: Watch, *, is_stored: bool) -> None:
        self.request_id = request_id
        self.watch = watch
        self.is_stored = is_stored
        """Whether the request has had its row, so that one that is not found is gone."""
        self.overtaken = False
        self._is_gone = False
        self._taken_over = False
        self._tail = tail
        self._observed: Observed | None = None
        self._moved = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether it can take an observation."""
        return self._observed is None

    def give(self, observed: Observed) -> None:
        self.watch = replace(self.watch, event_seq=observed.event_seq)
        self.overtaken = self.overtaken or observed.has_more
        self._observed = observed
        self._moved.set()

    def take_over(self) -> None:
        """Have `next` raise: another connection in this process follows the request."""
        self._taken_over = True
        self._moved.set()

    def lose(self) -> None:
        """Have `next` raise, once it has given what it holds: there is nothing to wait for."""
        self._is_gone = True
        self._moved.set()

    async def next(self) -> Observed:
        """What has moved since the last time, once something has. Safe to cancel: nothing is lost.

        Raises `TakenOverError`, `RowGoneError`.
        """
        await self._moved.wait()
        if self._taken_over:
            raise TakenOverError
        if self._is_gone and self._observed is None:
            raise RowGoneError
        observed, self._observed = self._observed, None
        self._moved.clear()
        if self.overtaken:
            self.overtaken = False
            self._tail.look({self.request_id})
        assert observed is not None, "only `give` sets the event"
        return observed

    def close(self) -> None:
        self._tail.forget(self)


@dataclass(frozen=True, slots=True, eq=False)
class _Joining:
    """Somebody who is to be told of changes as soon as the versions have been read once more."""

    subscriber: Subscriber
    subjects: Collection[Subject]
    joined: "asyncio.Future[dict[Subject, int]]"


class Tail:
    """Belongs to one event loop; all methods are called on it."""

    def __init__(self, rows: Threads, hints: Hints, upkeep: Upkeep) -> None:
        self._rows = rows
        self._hints = hints
        self._upkeep = upkeep
        self._watchers: dict[UUID, Watcher] = {}
        self._subjects = Subjects()
        self._joining: set[_Joining] = set()
        self._delivered: set[UUID] = set()
        self._hinted = asyncio.Event()
        self._named: set[Subject] | None = set()
        """What is to be looked at once it is hinted; None: all that is watched."""
        self._looked_at_all_at = 0.0
        self._looked_at = 0.0
        self._looked_for_gone_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._marking: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def look(self, named: Iterable[Subject] | None = None) -> None:
        """Look at the rows again, soon: at what is named, or at all. What `Hints` calls."""
        if named is None:
            self._named = None
        elif self._named is not None:
            self._named.update(named)
        self._hinted.set()

    def watch(self, request_id: UUID, *, event_seq: int, wants_events: bool, is_stored: bool) -> Watcher:
        """Wait for a request to move past `event_seq`; for one that is about to be stored, too."""
        if (former := self._watchers.get(request_id)) is not None:
            former.take_over()
        watcher = Watcher(self, request_id, Watch(event_seq, wants_events), is_stored=is_stored)
        self._watchers[request_id] = watcher
        self._begin()
        return watcher

    async def listen(self, subjects: Collection[Subject]) -> Listener:
        """Wait for changes that are committed from now on. Raises django.db.Error."""
        listener = Listener(lambda listener: self.leave(listener, subjects))
        listener.known.update(await self.join(listener, subjects))
        return listener

    async def join(self, subscriber: Subscriber, subjects: Collection[Subject]) -> dict[Subject, int]:
        """Have a subscriber told of changes that are committed from now on, until it leaves; the versions until then.

        Those who join together share a reading. Raises django.db.Error.
        """
        # Another process finds this one by its liveness row when it spreads the word of a change.
        await self._upkeep.vouch()
        joining = _Joining(subscriber, subjects, asyncio.get_running_loop().create_future())
        self._joining.add(joining)
        self._begin()
        self.look(())
        try:
            return await joining.joined
        except BaseException:
            self._subjects.leave(subscriber, subjects)
            raise
        finally:
            self._joining.discard(joining)
            self._end_unless_waited_for()

    def leave(self, subscriber: Subscriber, subjects: Collection[Subject]) -> None:
        """Tell it no more; nothing where it has not joined."""
        self._subjects.leave(subscriber, subjects)
        self._end_unless_waited_for()

    def forget(self, watcher: Watcher) -> None:
        if self._watchers.get(watcher.request_id) is watcher:  # else the client has come back with answers already
            del self._watchers[watcher.request_id]
        self._end_unless_waited_for()

    def delivered(self, request_id: UUID) -> None:
        """Note in the row, sometime, that its final response was handed to the connection."""
        self._delivered.add(request_id)
        if self._marking is None or self._marking.done():
            self._marking = asyncio.get_running_loop().create_task(self._mark(), name="mcp-delivered")

    async def close(self) -> None:
        self._end()
        _refuse(self._joining, OperationalError("this process ends"))
        self._closing.set()
        if self._marking is not None:
            await self._marking

    def _end_unless_waited_for(self) -> None:
        if not (self._watchers or self._subjects or self._joining):
            self._end()

    def _begin(self) -> None:
        if self._task is None:
            self._looked_at_all_at = self._looked_for_gone_at = time.monotonic()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mcp-tail")
            self._upkeep.begin()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._upkeep.end()

    async def _run(self) -> None:
        while True:
            await self._wait()
            try:
                await self._look()
            except Exception as error:
                logger.error("the rows cannot be read, trying again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self.look()

    async def _wait(self) -> None:
        """Until it is time to look; however many hints come, from time to time that is at all."""
        due_in = self._looked_at_all_at + self._interval() - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, due_in)):
                await self._hinted.wait()
        except TimeoutError:
            due_in = 0.0
        if due_in <= 0:
            self.look()
        elif len(self._watchers) >= CROWD and (early := self._looked_at + self._apart() - time.monotonic()) > 0:
            self._hints.rest()
            try:
                await asyncio.sleep(early)
            finally:
                self._hints.attend()
        self._looked_at = time.monotonic()

    def _apart(self) -> float:
        """Seconds from the last look to the one at what is named now."""
        wanted = any(watcher.watch.wants_events for watcher in self._watched(self._named))
        return EVENTS_APART if wanted else LOOKS_APART

    def _interval(self) -> float:
        if self._watchers and not self._hints.reachable:
            return float(settings.POLL_INTERVAL_WITHOUT_WAKE_UP)
        return float(settings.POLL_INTERVAL)

    async def _look(self) -> None:
        self._hinted.clear()
        named, self._named = self._named, set()
        if named is None:
            self._looked_at_all_at = time.monotonic()
        joining = tuple(self._joining)
        try:
            await self._look_at_watched(named)
            await self._look_at_subjects(named, joining)
            if named is None:
                await self._look_for_gone()
        except Exception as error:
            _refuse(joining, error)
            raise

    def _watched(self, named: set[Subject] | None) -> list[Watcher]:
        """Who waits for the requests that are named; None: everybody."""
        requests = self._watchers.keys() if named is None else self._watchers.keys() & named
        return [self._watchers[request_id] for request_id in requests]

    async def _look_at_watched(self, named: set[Subject] | None) -> None:
        looking = {}
        for watcher in self._watched(named):
            if watcher.ready:
                looking[watcher.request_id] = watcher
            else:
                watcher.overtaken = True
        if not looking:
            return
        watched = {request_id: watcher.watch for request_id, watcher in looking.items()}
        for observed in await self._rows.run(observation.observe, watched):
            if (moved := self._watchers.get(observed.request_id)) is looking[observed.request_id]:
                moved.give(observed)
            elif moved is not None:  # it began meanwhile, and waits for what came earlier
                self.look({observed.request_id})

    async def _look_for_gone(self) -> None:
        """After a look, which has told what has ended and been purged since."""
        now = time.monotonic()
        stored = [watcher.request_id for watcher in self._watchers.values() if watcher.is_stored]
        if not stored or now - self._looked_for_gone_at < GONE_EVERY:
            return
        self._looked_for_gone_at = now
        for request_id in await self._rows.run(observation.gone, stored):
            if (watcher := self._watchers.get(request_id)) is not None:
                watcher.lose()

    async def _look_at_subjects(self, named: set[Subject] | None, joining: Collection[_Joining]) -> None:
        watched = self._subjects.watched
        known = watched if named is None else named.intersection(watched)
        subjects = {*known, *(subject for each in joining for subject in each.subjects)}
        if not subjects:
            return
        current = await self._rows.run(observation.versions, subjects)
        self._subjects.take(current)
        for each in joining:
            # From here on nothing is waited for: who left meanwhile is not left among those who are told.
            if not each.joined.done():
                self._subjects.join(each.subscriber, each.subjects, current)
                each.joined.set_result({subject: current.get(subject, 0) for subject in each.subjects})

    async def _mark(self) -> None:
        while self._delivered:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), DELIVERED_TOGETHER)
            batch, self._delivered = self._delivered, set()
            try:
                await self._rows.run(observation.mark_delivered, batch)
            except Exception as error:
                logger.error("%d delivered responses were not noted in their rows: %s", len(batch), error)


def _refuse(joining: Iterable[_Joining], error: Exception) -> None:
    """Say to those who were to be told that nothing could be read."""
    for each in joining:
        if not each.joined.done():
            each.joined.set_exception(error)
