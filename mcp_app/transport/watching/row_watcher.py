"""Queries the rows that clients of this server process wait for.

Theory of operation
-------------------

Workers, the admin and other server processes change rows. A server process learns of it in two
ways:

    worker ── wake-up that names requests ──> WakeupListener ──> RowWatcher.wake ──> one query of those requests
    timer  ── every POLL_INTERVAL ─────────────────────────────> RowWatcher.wake ──> one query of all requests

1. One task per process runs the queries, and only while clients wait. Without clients the process
   sends no statement.
2. Wake-ups that arrive while a query runs are collected, and the next query serves all of them.
3. A wake-up may be lost. The timer makes up for it: once in `POLL_INTERVAL` all requests are
   queried, or more often if no wake-up can arrive at all.
4. A `RequestWaiter` holds one observation. Until its client has taken it, the request is not
   queried again; the rows themselves are the buffer of a slow client.
5. Subjects, such as the list of tools, have a version each. Their subscribers are in a
   `ChangeTable`. A subscriber joins when the versions have been read once more, so that it misses
   no change that is committed after it asked.
6. Every few seconds the watcher checks that the stored rows still exist. A restored database may
   have lost them.

The watcher writes one thing: that a final response was handed to its connection, `DELIVERY_DELAY`
later and for many requests at once.
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
from mcp_app.lifecycle.requests import observation
from mcp_app.lifecycle.requests.observation import Observed, Subject, WatchedRequest
from mcp_app.transport.process.threads import Threads
from mcp_app.transport.process.upkeep import Upkeep
from mcp_app.transport.watching.change_table import ChangeListener, ChangeTable, Subscriber
from mcp_app.transport.watching.wakeup_listener import WakeupListener

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""The pause after a failed query, which spares a database that is away."""
GONE_INTERVAL = 5.0
"""Seconds between two checks that the rows still exist."""
DELIVERY_DELAY = 0.05
"""Seconds for which delivered responses are collected before one statement marks them."""


class TakenOverError(Exception):
    """Another connection follows the request now."""


class RowGoneError(Exception):
    """The request's row does not exist any more: it was deleted, or its database was restored."""


class RequestWaiter:
    """One client's wait for one request."""

    def __init__(self, watcher: "RowWatcher", request_id: UUID, watch: WatchedRequest, *, is_stored: bool) -> None:
        self.request_id = request_id
        self.watch = watch
        self.is_stored = is_stored
        """Whether the request has been stored, so that a missing row means that it was deleted."""
        self.observed: Observed | None = None
        """What the client has not taken yet."""
        self.has_more = False
        """Whether there is more to observe than `observed`."""
        self._is_gone = False
        self._is_taken_over = False
        self._watcher = watcher
        self._moved = asyncio.Event()

    def give(self, observed: Observed) -> None:
        self.watch = replace(self.watch, event_seq=observed.event_seq)
        self.has_more = self.has_more or observed.has_more
        self.observed = observed
        self._moved.set()

    def take_over(self) -> None:
        """Make `next` raise `TakenOverError`."""
        self._is_taken_over = True
        self._moved.set()

    def lose(self) -> None:
        """Make `next` raise `RowGoneError`, once it has returned the last observation."""
        self._is_gone = True
        self._moved.set()

    async def next(self) -> Observed:
        """Wait until the request moves, and return its new events and state.

        No event is lost if this is cancelled. Raises `TakenOverError` and `RowGoneError`.
        """
        await self._moved.wait()
        if self._is_taken_over:
            raise TakenOverError
        if self._is_gone and self.observed is None:
            raise RowGoneError
        observed, self.observed = self.observed, None
        self._moved.clear()
        if self.has_more:
            self.has_more = False
            self._watcher.wake({self.request_id})
        assert observed is not None, "only `give` sets the event"
        return observed

    def close(self) -> None:
        self._watcher.unwatch(self)


@dataclass(frozen=True, slots=True, eq=False)
class _Joining:
    """A subscriber that joins as soon as the versions of its subjects have been read."""

    subscriber: Subscriber
    subjects: Collection[Subject]
    joined: "asyncio.Future[dict[Subject, int]]"


class RowWatcher:
    """Queries rows for all clients of this process. All methods are called on one event loop."""

    def __init__(self, boot_id: UUID, rows: Threads, upkeep: Upkeep) -> None:
        self._rows = rows
        self._wakeup_listener = WakeupListener(boot_id, self.wake)
        self._upkeep = upkeep
        self._waiters: dict[UUID, RequestWaiter] = {}
        self._changes = ChangeTable()
        self._joining: set[_Joining] = set()
        self._delivered: set[UUID] = set()
        self._woken = asyncio.Event()
        self._named: set[Subject] | None = set()
        """The requests and subjects to query next; `None` for all that are watched."""
        self._queried_all_at = 0.0
        self._checked_gone_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._marking: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def open(self) -> None:
        """Listen for wake-ups."""
        self._wakeup_listener.open()

    def wake(self, named: Iterable[Subject] | None = None) -> None:
        """Query the named requests and subjects soon, or all that are watched."""
        if named is None:
            self._named = None
        elif self._named is not None:
            self._named.update(named)
        self._woken.set()

    def watch(self, request_id: UUID, *, event_seq: int, wants_events: bool, is_stored: bool) -> RequestWaiter:
        """Wait for a request to move past `event_seq`. The request may be about to be stored."""
        if (former := self._waiters.get(request_id)) is not None:
            former.take_over()
        waiter = RequestWaiter(self, request_id, WatchedRequest(event_seq, wants_events), is_stored=is_stored)
        self._waiters[request_id] = waiter
        self._start()
        return waiter

    def unwatch(self, waiter: RequestWaiter) -> None:
        if self._waiters.get(waiter.request_id) is waiter:  # otherwise another connection has taken over
            del self._waiters[waiter.request_id]
        self._stop_if_idle()

    async def listen(self, subjects: Collection[Subject]) -> ChangeListener:
        """Wait for changes that are committed from now on. Raises `django.db.Error`."""
        listener = ChangeListener(lambda listener: self.leave(listener, subjects))
        listener.known.update(await self.join(listener, subjects))
        return listener

    async def join(self, subscriber: Subscriber, subjects: Collection[Subject]) -> dict[Subject, int]:
        """Notify a subscriber about changes that are committed from now on, until it leaves.

        Returns the versions of the subjects. Subscribers that join at the same time share a query.
        Raises `django.db.Error`.
        """
        # A process that changes a subject finds this one by its row, and wakes it.
        await self._upkeep.ensure_alive()
        joining = _Joining(subscriber, subjects, asyncio.get_running_loop().create_future())
        self._joining.add(joining)
        self._start()
        self.wake(())
        try:
            return await joining.joined
        except BaseException:
            self._changes.leave(subscriber, subjects)
            raise
        finally:
            self._joining.discard(joining)
            self._stop_if_idle()

    def leave(self, subscriber: Subscriber, subjects: Collection[Subject]) -> None:
        """Stop notifying a subscriber. Does nothing if it has not joined."""
        self._changes.leave(subscriber, subjects)
        self._stop_if_idle()

    def delivered(self, request_id: UUID) -> None:
        """Mark in the row, a moment later, that the final response was handed to its connection."""
        self._delivered.add(request_id)
        if self._marking is None or self._marking.done():
            self._marking = asyncio.get_running_loop().create_task(self._mark_delivered(), name="mcp-delivered")

    async def close(self) -> None:
        self._stop()
        _fail(self._joining, OperationalError("this process ends"))
        self._closing.set()
        # Side by side, because the database or the channel layer may not answer.
        await asyncio.gather(self._wakeup_listener.close(), *([] if self._marking is None else [self._marking]))

    def _start(self) -> None:
        if self._task is None:
            self._queried_all_at = self._checked_gone_at = time.monotonic()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mcp-row-watcher")
            self._upkeep.begin()

    def _stop_if_idle(self) -> None:
        if not (self._waiters or self._changes.versions or self._joining):
            self._stop()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._upkeep.end()

    async def _run(self) -> None:
        while True:
            interval: float = settings.POLL_INTERVAL
            if self._waiters and not self._wakeup_listener.reachable:
                interval = settings.POLL_INTERVAL_WITHOUT_WAKE_UP
            due_at = self._queried_all_at + interval
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due_at - time.monotonic())):
                    await self._woken.wait()
            if time.monotonic() >= due_at:  # also if wake-ups never pause
                self.wake()
            try:
                await self._query()
            except Exception as error:
                logger.error("the rows cannot be read, trying again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self.wake()

    async def _query(self) -> None:
        self._woken.clear()
        named, self._named = self._named, set()
        if named is None:
            self._queried_all_at = time.monotonic()
        joining = tuple(self._joining)
        try:
            await self._query_requests(named)
            if joining or self._changes.versions:
                await self._query_versions(named, joining)
            if named is None:
                await self._check_gone()
        except Exception as error:
            _fail(joining, error)
            raise

    async def _query_requests(self, named: set[Subject] | None) -> None:
        queried: dict[UUID, RequestWaiter] = {}
        for request_id in self._waiters.keys() if named is None else self._waiters.keys() & named:
            waiter = self._waiters[request_id]
            if waiter.observed is None:
                queried[request_id] = waiter
            else:
                waiter.has_more = True
        if not queried:
            return
        watched = {request_id: waiter.watch for request_id, waiter in queried.items()}
        for observed in await self._rows.run(observation.observe, watched):
            if (current := self._waiters.get(observed.request_id)) is queried[observed.request_id]:
                current.give(observed)
            elif current is not None:  # it began during the query, and waits for earlier events
                self.wake({observed.request_id})

    async def _query_versions(self, named: set[Subject] | None, joining: Collection[_Joining]) -> None:
        watched = self._changes.versions.keys()
        subjects = set(watched if named is None else named.intersection(watched))
        subjects.update(*(each.subjects for each in joining))
        if not subjects:
            return
        current = await self._rows.run(observation.versions, subjects)
        self._changes.take(current)
        for each in joining:
            # Without an `await` in between, so that a subscriber that has just left is not added.
            if not each.joined.done():
                self._changes.join(each.subscriber, each.subjects, current)
                each.joined.set_result({subject: current.get(subject, 0) for subject in each.subjects})

    async def _check_gone(self) -> None:
        """Find requests whose rows are missing.

        Call this after a query, which has observed the requests that have ended.
        """
        now = time.monotonic()
        stored = [waiter.request_id for waiter in self._waiters.values() if waiter.is_stored]
        if not stored or now - self._checked_gone_at < GONE_INTERVAL:
            return
        self._checked_gone_at = now
        for request_id in await self._rows.run(observation.gone, stored):
            if (waiter := self._waiters.get(request_id)) is not None:
                waiter.lose()

    async def _mark_delivered(self) -> None:
        while self._delivered:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), DELIVERY_DELAY)
            batch, self._delivered = self._delivered, set()
            try:
                await self._rows.run(observation.mark_delivered, batch)
            except Exception as error:
                logger.error("%d responses were delivered, but this could not be recorded: %s", len(batch), error)


def _fail(joining: Iterable[_Joining], error: Exception) -> None:
    for each in joining:
        if not each.joined.done():
            each.joined.set_exception(error)
