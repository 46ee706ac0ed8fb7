"""The recorder: what writes the rows of running calls, on a connection that no tool can touch.

A thread beside the tools does, so that progress made inside the tool's transaction is visible at once and survives its
rollback, and an interrupt cannot break a write. Before and after a tool's body, when nothing is interrupted, the thread
that runs the call writes by itself, on that same connection: handing over costs more than most writes do. A flood is
thinned here, before anything is stored: a token bucket, the newest of the excess, first and last kept.
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
from mcp_app.lifecycle import reports, transitions
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.reports import Report
from mcp_app.states import EventKind

logger = logging.getLogger(__name__)

R = TypeVar("R")

RETRY_SECONDS = 30.0


class EventBuffer:
    """The token bucket of one request. Pure: told the time in seconds; not safe for threads by itself."""

    def __init__(self, now: float) -> None:
        self._tokens = float(settings.EVENT_BURST)
        self._refilled_at = now
        self._ready: list[Event] = []
        self._held: dict[EventKind, Event] = {}

    def offer(self, event: Event, now: float) -> bool:
        """Take in an event: for the next write while there are tokens, else in place of the last one held back.

        Whether something is to be written sooner than before.
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
        """What is to be written now; with `final` all that is left."""
        self._refill(now)
        taken, self._ready = self._ready, []
        for kind in list(self._held):
            if final or self._tokens >= 1:
                self._tokens -= 1
                taken.append(self._held.pop(kind))
        return taken

    def wait(self, now: float) -> float | None:
        """Seconds until something is to be written; None when nothing is."""
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
    """Runs writes in order, one at a time. A request's events are taken in while it is open."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._open: dict[UUID, EventBuffer] = {}
        self._heard: set[UUID] = set()
        """Those of them that have told something which is not written yet."""
        self._asked = 0
        """Jobs of the thread's that are not done yet."""
        self._writing = threading.Lock()
        self._connection: BaseDatabaseWrapper | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="mcp-recorder", daemon=True).start()

    def call(self, function: Callable[[], R], *, patience: float = RETRY_SECONDS) -> R:
        """Run `function` on the recorder's thread and wait; a database that is away is tried again for `patience` s."""
        outcome: SimpleQueue[tuple[R] | BaseException] = SimpleQueue()
        give_up_at = time.monotonic() + patience  # from now: many may wait here in turn

        def job() -> None:
            try:
                outcome.put((insist(function, give_up_at),))
            except BaseException as error:
                outcome.put(error)

        self._ask(job)
        returned = outcome.get()
        if isinstance(returned, tuple):
            return returned[0]
        try:
            raise returned
        finally:
            del returned  # its traceback has this frame

    def call_here(self, function: Callable[[], R], *, patience: float = RETRY_SECONDS) -> R:
        """As `call`, in this thread, where no tool's body runs now: nothing interrupts it, and no event loop waits."""
        with self._lock:
            is_asked = self._asked
        if is_asked:  # of what is to be written first
            return self.call(function, patience=patience)
        give_up_at = time.monotonic() + patience
        with self._connected():
            return insist(function, give_up_at)

    def cast(self, function: Callable[[], object]) -> None:
        """Run `function` on the recorder's thread sometime; a failure is logged."""

        def job() -> None:
            try:
                function()
            except Exception:
                logger.exception("a write that nobody waits for failed")

        self._ask(job)

    def open(self, request_id: UUID) -> None:
        with self._lock:
            self._open[request_id] = EventBuffer(time.monotonic())

    def post(self, request_id: UUID, event: Event) -> None:
        """Have an event of an open request stored soon; of another, which a thread outlived, nothing is kept.

        Never blocks on the database.
        """
        with self._lock:
            buffer = self._open.get(request_id)
            is_due_sooner = buffer is not None and buffer.offer(event, time.monotonic())
            if buffer is not None:
                self._heard.add(request_id)
        # Woken by each event of a flood, the thread that writes would take the interpreter from the tool.
        if is_due_sooner:
            self._jobs.put(_look_again)

    def close(self, request_id: UUID, ending: Callable[[], R]) -> R:
        """Write here what is left of a request's events, then `ending`; nothing posted later is kept.

        A database that is away is tried again for `ENDING_TIMEOUT`.
        """

        def last() -> R:
            with self._lock:
                buffer = self._open.pop(request_id, None)
                self._heard.discard(request_id)
                taken = buffer.take(time.monotonic(), final=True) if buffer is not None else []
            write_events(request_id, taken)
            return ending()

        return self.call_here(last, patience=settings.ENDING_TIMEOUT)

    def _ask(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._asked += 1
        self._jobs.put(job)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Write, one thread at a time, on the connection that is the recorder's instead of on this thread's."""
        with self._writing:
            own = getattr(connections._connections, settings.DATABASE, None)  # type: ignore[attr-defined] # has no public look-up
            if self._connection is None:
                self._connection = connections.create_connection(settings.DATABASE)
                self._connection.inc_thread_sharing()
            connections[settings.DATABASE] = self._connection
            try:
                yield
            finally:
                if own is None:
                    del connections[settings.DATABASE]
                else:
                    connections[settings.DATABASE] = own

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._wait())
            except Empty:
                with suppress(Exception):
                    self._flush()
            else:
                with self._connected():
                    job()
                if job is not _look_again:
                    with self._lock:
                        self._asked -= 1
                del job  # what it holds is not kept until the next

    def _wait(self) -> float | None:
        """Seconds until events are due; None when none are."""
        if not self._heard:
            return None
        with self._lock:
            now = time.monotonic()
            waits = [wait for each in self._heard if (wait := self._open[each].wait(now)) is not None]
        return min(waits, default=None)

    def _flush(self) -> None:
        with self._connected():  # before it takes any: what is written last is the end
            with self._lock:
                now = time.monotonic()
                due = [(request_id, self._open[request_id].take(now)) for request_id in self._heard]
                self._heard = {each for each in self._heard if self._open[each].wait(now) is not None}
            write_all([(request_id, taken) for request_id, taken in due if taken])


def _look_again() -> None:
    """A job that only wakes the thread: events are due sooner."""


def write_events(request_id: UUID, taken: list[Event]) -> None:
    if not taken:
        return
    try:
        transitions.record(request_id, taken, **_newest_progress(taken))
    except Exception:
        logger.exception("%d events of request %s were not stored", len(taken), request_id)
        databases.connection().close()


def write_all(told: Sequence[tuple[UUID, list[Event]]]) -> None:
    """The same of several requests, by one statement; where that fails, of each by itself."""
    if len(told) > 1:
        try:
            reports.record_all([Report(request_id, taken, _newest_progress(taken)) for request_id, taken in told])
        except Exception:
            logger.warning("the events of %d requests are stored one by one", len(told), exc_info=True)
            databases.connection().close()
        else:
            return
    for request_id, taken in told:
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


def insist(function: Callable[[], R], give_up_at: float) -> R:
    """Call `function` until the database answers, or it is `give_up_at`, on fresh connections each time.

    Raises what `databases.AWAY` has then.
    """
    delay = 0.05
    while True:
        try:
            return function()
        except databases.AWAY as error:
            if time.monotonic() > give_up_at:
                raise
            logger.warning("the database is away, trying again: %s", error)
            databases.connection().close()
            for connection in connections.all(initialized_only=True):  # its users may be in another
                connection.close_if_unusable_or_obsolete()
        time.sleep(delay)
        delay = min(delay * 2, 2.0)
