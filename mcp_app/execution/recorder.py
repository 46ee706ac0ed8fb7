"""The recorder writes the rows of running calls, on a database connection that no tool can touch.

Theory of operation
-------------------

A tool reports progress while it is inside its own transactions, and may be interrupted at any
instruction. So its events are written by a thread beside it, on a separate connection: they are
visible at once, survive a rollback, and no interrupt breaks a write.

1. There are two ways to write. `call` and `enqueue` give a job to the recorder's thread.
   `call_in_this_thread` writes in the caller's thread, on the same connection. It is used before
   and after the body, when nothing is interrupted, because a hand-over costs more than most writes.
2. All writes have one order. `_writing` lets one thread at a time use the connection. While jobs
   are queued, `call_in_this_thread` queues as well.
3. Events go through a token bucket for each request (`EventBuffer`). With a token an event is
   written soon. Without one it is held, and replaces the held event of the same kind. So a flood
   stores `EVENT_RATE` events a second, and the first and the last event are always stored.
4. `post` only takes a lock. It wakes the thread only if something becomes due sooner than before: a
   thread that is woken by each event would take the interpreter from the tool.
5. `close` takes the remaining events and writes them before the ending. Events that are posted
   later, by a thread that outlived the call, are dropped.
6. If the database is away, a write is repeated on a new connection, for RETRY_SECONDS or, for an
   ending, `ENDING_TIMEOUT`.

An interrupt between taking `_lock` and releasing it would leave it taken. So tools call `post` and
`call` inside a shield.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle.database import retries
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.statements import Addition
from mcp_app.states import EventKind

logger = logging.getLogger(__name__)

R = TypeVar("R")

RETRY_SECONDS = 30.0


class EventBuffer:
    """The token bucket of one request. It gets the time as an argument, and is not thread-safe."""

    def __init__(self, now: float) -> None:
        self._tokens = float(settings.EVENT_BURST)
        self._refilled_at = now
        self._ready: list[Event] = []
        self._held: dict[EventKind, Event] = {}

    def offer(self, event: Event, now: float) -> bool:
        """Take in an event, for the next write or in place of the held event of its kind.

        Return whether a write is now due sooner than before.
        """
        if event.kind in self._held:
            self._held[event.kind] = event
            return False
        self._refill(now)
        if self._tokens < 1:
            self._held[event.kind] = event
            return len(self._held) == 1 and not self._ready
        self._tokens -= 1
        self._ready.append(event)
        return len(self._ready) == 1

    def take(self, now: float, *, final: bool = False) -> list[Event]:
        """Return the events that must be written now; with `final`, all of them."""
        self._refill(now)
        taken, self._ready = self._ready, []
        for kind in list(self._held):
            if final or self._tokens >= 1:
                self._tokens -= 1
                taken.append(self._held.pop(kind))
        return taken

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next write, or `None` if there is nothing to write."""
        if self._ready:
            return 0.0
        if not self._held:
            return None
        self._refill(now)
        return max(0.0, (1 - self._tokens) / float(settings.EVENT_RATE))

    def _refill(self, now: float) -> None:
        earned = (now - self._refilled_at) * settings.EVENT_RATE
        self._tokens = min(float(settings.EVENT_BURST), self._tokens + earned)
        self._refilled_at = now


class Recorder:
    """Runs writes in order, one at a time.

    Events of a request are accepted between `open` and `close`.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._open: dict[UUID, EventBuffer | None] = {}
        """The open requests. Each has a buffer from its first event on."""
        self._with_events: dict[UUID, EventBuffer] = {}
        """The buffers whose events are not all written."""
        self._pending_jobs = 0
        """Jobs that the recorder's thread has not done yet."""
        self._writing = threading.Lock()
        self._connection: BaseDatabaseWrapper | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="mcp-recorder", daemon=True).start()

    def call(self, function: Callable[[], R], *, patience: float = RETRY_SECONDS) -> R:
        """Run `function` on the recorder's thread, and return its result.

        If the database is away, retry for `patience` seconds.
        """
        outcome: SimpleQueue[tuple[R] | BaseException] = SimpleQueue()
        # The time counts from now, because many threads may wait here in turn.
        give_up_at = time.monotonic() + patience

        def job() -> None:
            try:
                outcome.put((retry_while_away(function, give_up_at),))
            except BaseException as error:
                outcome.put(error)

        self._put(job)
        returned = outcome.get()
        if isinstance(returned, tuple):
            return returned[0]
        try:
            raise returned
        finally:
            del returned  # its traceback has this frame

    def call_in_this_thread(self, function: Callable[[], R], *, patience: float = RETRY_SECONDS) -> R:
        """Run `function` in this thread, with the recorder's connection, like `call`.

        Only for use outside a tool's body, so that nothing interrupts it and no event loop is
        blocked.
        """
        with self._lock:
            is_asked = self._pending_jobs
        if is_asked:  # they must be written first
            return self.call(function, patience=patience)
        give_up_at = time.monotonic() + patience
        with self._on_own_connection():
            return retry_while_away(function, give_up_at)

    def enqueue(self, function: Callable[[], object]) -> None:
        """Run `function` on the recorder's thread later. A failure is logged."""

        def job() -> None:
            try:
                function()
            except Exception:
                logger.exception("a write in the background failed")

        self._put(job)

    def open(self, request_id: UUID) -> None:
        with self._lock:
            self._open[request_id] = None

    def post(self, request_id: UUID, event: Event) -> None:
        """Store an event of an open request soon. Never blocks on the database."""
        with self._lock:
            now = time.monotonic()
            if (buffer := self._get_buffer(request_id, now)) is None:
                return
            self._with_events[request_id] = buffer
            is_due_sooner = buffer.offer(event, now)
        if is_due_sooner:
            self._jobs.put(_wake_thread)

    def close(self, request_id: UUID, ending: Callable[[], R]) -> R:
        """Write the remaining events of a request, then call `ending`.

        Events that are posted later are dropped.
        """

        def write_rest_and_ending() -> R:
            with self._lock:
                buffer = self._open.pop(request_id, None)
                self._with_events.pop(request_id, None)
            if buffer is not None:
                write_events(request_id, buffer.take(time.monotonic(), final=True))
            return ending()

        return self.call_in_this_thread(write_rest_and_ending, patience=settings.ENDING_TIMEOUT)

    def _get_buffer(self, request_id: UUID, now: float) -> EventBuffer | None:
        """Return the buffer of a request, or `None` if the request is not open. Call it with the lock."""
        if request_id not in self._open:
            return None
        if (buffer := self._open[request_id]) is None:
            buffer = self._open[request_id] = EventBuffer(now)
        return buffer

    def _put(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._pending_jobs += 1
        self._jobs.put(job)

    @contextmanager
    def _on_own_connection(self) -> Iterator[None]:
        """Use the recorder's connection in place of this thread's. One thread at a time."""
        with self._writing:
            own = databases.connection()
            if self._connection is None:
                self._connection = connections.create_connection(settings.DATABASE)
                self._connection.inc_thread_sharing()
            connections[settings.DATABASE] = self._connection
            try:
                yield
            finally:
                connections[settings.DATABASE] = own

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._wait())
            except Empty:
                with suppress(Exception):
                    self._flush()
            else:
                with self._on_own_connection():
                    job()
                if job is not _wake_thread:
                    with self._lock:
                        self._pending_jobs -= 1
                del job  # release what it refers to

    def _wait(self) -> float | None:
        """Return the seconds until events are due, or `None` if there are none."""
        if not self._with_events:
            return None
        with self._lock:
            now = time.monotonic()
            waits = [wait for buffer in self._with_events.values() if (wait := buffer.wait(now)) is not None]
        return min(waits, default=None)

    def _flush(self) -> None:
        # Connect before taking events, so that no ending is written before them.
        with self._on_own_connection():
            with self._lock:
                now = time.monotonic()
                due = [(request_id, buffer.take(now)) for request_id, buffer in self._with_events.items()]
                left = {key: buffer for key, buffer in self._with_events.items() if buffer.wait(now) is not None}
                self._with_events = left
            write_all_events([(request_id, taken) for request_id, taken in due if taken])


def _wake_thread() -> None:
    """A job that only wakes the thread, because events are due sooner."""


def write_events(request_id: UUID, taken: list[Event]) -> None:
    if not taken:
        return
    try:
        transitions.record(request_id, taken, **_newest_progress(taken))
    except Exception:
        logger.exception("%d events of request %s were not stored", len(taken), request_id)
        databases.connection().close()


def write_all_events(batches: Sequence[tuple[UUID, list[Event]]]) -> None:
    """Write the events of several requests in one statement.

    If that fails, write them one by one.
    """
    if len(batches) > 1:
        try:
            transitions.record_all(
                [Addition(request_id, taken, _newest_progress(taken)) for request_id, taken in batches]
            )
        except Exception:
            logger.warning(
                "the events of %d requests could not be stored together; they are stored one by one",
                len(batches),
                exc_info=True,
            )
            databases.connection().close()
        else:
            return
    for request_id, taken in batches:
        write_events(request_id, taken)


def _newest_progress(taken: list[Event]) -> dict[str, Any]:
    for event in reversed(taken):
        if event.kind == EventKind.PROGRESS:
            return {
                "progress": event.data["progress"],
                "progress_total": event.data.get("total"),
                "progress_message": event.data.get("message", "")[:1024],
            }
    return {}


def retry_while_away(function: Callable[[], R], give_up_at: float) -> R:
    """Call `function` until the database answers or `give_up_at` has passed, each time on a new
    connection.

    Raises the last error (one of `databases.AWAY`) if the time is over.
    """
    return retries.repeat(function, databases.AWAY, first=0.05, longest=2.0, give_up_at=give_up_at, on_error=_reconnect)


def _reconnect(error: Exception) -> None:
    logger.warning("the database cannot be reached, trying again: %s", error)
    databases.connection().close()
    # The site's users may be in another database.
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()
