"""How much a server process lets in: requests, calls, reads and listen streams, in all and per principal; how often;
bytes of bodies; no new work while draining.

Counts in this process only; `call_admission` counts rows. Refuses with a `Rejection`; the caller answers.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.call_limits import Excess
from mcp_app.conf import settings
from mcp_app.protocol.errors import (
    TOO_MANY_REQUESTS,
    UNAVAILABLE,
    Rejection,
    RequestId,
    refuse_for_load,
)
from mcp_app.transport.gathered import Company, Crowd
from mcp_app.transport.rate import Rate

T = TypeVar("T")

BUSY = "The server is busy; try again in a moment."


class Admitted(Generic[T]):
    """The streams of one kind that are open now."""

    def __init__(self) -> None:
        self.open: set[T] = set()
        self._by_principal: Counter[Principal] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()

    def count(self, principal: Principal) -> int:
        return self._by_principal[principal]

    @contextmanager
    def hold(self, principal: Principal, stream: T) -> Iterator[None]:
        self.add(principal, stream)
        try:
            yield
        finally:
            self.remove(principal, stream)

    def add(self, principal: Principal, stream: T) -> None:
        self.open.add(stream)
        self._by_principal[principal] += 1
        self._empty.clear()

    def remove(self, principal: Principal, stream: T) -> None:
        """Nothing where it is not among them."""
        if stream not in self.open:
            return
        self.open.remove(stream)
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            del self._by_principal[principal]
        if not self.open:
            self._empty.set()

    async def emptied(self, seconds: float) -> bool:
        """Wait until none is open, for at most this long; whether that came."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True


class Serving:
    """Counts requests while they are served: each is a block. Every request has some, so it is no generator."""

    def __init__(self) -> None:
        self.requests = 0

    def __enter__(self) -> None:
        self.requests += 1

    def __exit__(self, *raised: object) -> None:
        self.requests -= 1


class Call(Protocol):
    """A `tools/call` that somebody waits for."""

    async def cancel_for_shutdown(self) -> None:
        """Ask for its work to stop; its client is told how it ended."""


class Subscription(Protocol):
    """An open `subscriptions/listen`, or a read that waits for its user."""

    def end(self) -> None:
        """Have it end itself gracefully, soon."""


class Admission:
    """The doors for calls, for reads (of resources and prompts) and for subscriptions."""

    def __init__(self) -> None:
        self.calls: Admitted[Call] = Admitted()
        self.crowd = Crowd()
        """For how long calls wait for one another."""
        self.reads: Admitted[object] = Admitted()
        self.asking: Admitted[Subscription] = Admitted()
        """Reads that may wait for their user; their questions are counted as rows."""
        self.listeners: Admitted[Subscription] = Admitted()
        self.draining = False
        self.body_bytes = 0
        """Of bodies that are arriving."""
        self.remaining = 0
        """Streams that wait with nothing under way."""
        self.serving = Serving()
        self._requests = Rate()
        self._completions = Rate()

    @property
    def company(self) -> Company:
        """What a call may wait for before it is let in."""
        return self.crowd.company(len(self.calls.open))

    def refuse_request(self, principal: Principal, address: str) -> Rejection | None:
        """Whatever it is: of one caller's too many in a second, of all callers' too many at once."""
        caller = principal if principal.subject else (principal, address)
        wait = self._requests.take(
            caller, time.monotonic(), burst=settings.REQUEST_BURST, per_second=settings.REQUEST_RATE
        )
        if wait:
            return too_many("You send requests too often; wait a moment.", None, retry_after=wait)
        if self.serving.requests + self.remaining - len(self.listeners.open) >= settings.MAX_OPEN_REQUESTS:
            return unavailable(BUSY, None)
        return None

    def refuse_body(self) -> Rejection | None:
        """What has arrived is too much to hold, together with what others are sending."""
        return unavailable(BUSY, None) if self.body_bytes > settings.MAX_HELD_BODY_BYTES else None

    def refuse_call(self, principal: Principal, request_id: RequestId | None) -> Rejection | None:
        if self.draining:
            return shutting_down(request_id)
        if self.calls.count(principal) >= settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
            return too_many("Too many calls of yours are open; wait for one to end.", request_id)
        return None

    def refuse_read(self, principal: Principal, request_id: RequestId) -> Rejection | None:
        if self.draining:
            return shutting_down(request_id)
        if self.reads.count(principal) >= settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
            return too_many("Too many requests of yours are open; wait for one to end.", request_id)
        return None

    def refuse_completion(self, principal: Principal, address: str, request_id: RequestId) -> Rejection | None:
        """Completions are asked for while somebody types, and tell much to one who asks for many."""
        wait = self._completions.take(
            (principal, address),
            time.monotonic(),
            burst=settings.COMPLETION_BURST,
            per_second=settings.COMPLETION_RATE,
        )
        if not wait:
            return None
        return too_many("You ask for completions too often; wait a moment.", request_id, retry_after=wait)

    def refuse_listener(self, principal: Principal, request_id: RequestId | None) -> Rejection | None:
        if self.draining:
            return shutting_down(request_id)
        if self.listeners.count(principal) >= settings.MAX_LISTEN_STREAMS_PER_PRINCIPAL:
            return too_many("Too many subscriptions of yours are open; close one.", request_id)
        if len(self.listeners.open) >= settings.MAX_LISTEN_STREAMS:
            return unavailable("The server holds as many subscriptions as it can; try again later.", request_id)
        return None


def too_many(message: str, request_id: RequestId | None, *, retry_after: float | None = None) -> Rejection:
    """429: this caller has as much as may be. `retry_after` is in seconds, `RETRY_AFTER` where nobody knows better."""
    wait = settings.RETRY_AFTER if retry_after is None else retry_after
    return refuse_for_load(TOO_MANY_REQUESTS, message, request_id, retry_after=wait)


def unavailable(message: str, request_id: RequestId | None) -> Rejection:
    """503: the server cannot, whoever asks."""
    return refuse_for_load(UNAVAILABLE, message, request_id, retry_after=settings.RETRY_AFTER)


def excessive(excess: Excess, request_id: RequestId) -> Rejection:
    """Of a call that is one too many."""
    if excess.is_callers:
        return too_many(excess.words, request_id, retry_after=excess.retry_after)
    return unavailable(excess.words, request_id)


def shutting_down(request_id: RequestId | None = None) -> Rejection:
    """503: this process takes no new work; another may."""
    return unavailable("The server process is shutting down; try again in a moment.", request_id)
