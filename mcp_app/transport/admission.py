"""How much a server process lets in: calls, reads and listen streams, in all and per principal; none while draining.

Counts in this process only. Refuses with a `Rejection`; the caller answers.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import (
    TOO_MANY_REQUESTS,
    UNAVAILABLE,
    HTTPFields,
    Rejection,
    RequestId,
    refuse,
)
from mcp_app.transport.rate import Rate

T = TypeVar("T")

RETRY_AFTER: HTTPFields = ((b"retry-after", b"1"),)


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
        self.open.add(stream)
        self._by_principal[principal] += 1
        self._empty.clear()
        try:
            yield
        finally:
            self.open.discard(stream)
            self._by_principal[principal] -= 1
            self._by_principal += Counter()  # drops the principals at zero
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
        self.reads: Admitted[object] = Admitted()
        self.asking: Admitted[Subscription] = Admitted()
        """Reads that may wait for their user; their questions are counted as rows."""
        self.listeners: Admitted[Subscription] = Admitted()
        self.draining = False
        self._completions = Rate()

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
        if self._completions.take(
            (principal, address),
            time.monotonic(),
            burst=settings.COMPLETION_BURST,
            per_second=settings.COMPLETION_RATE,
        ):
            return None
        return too_many("You ask for completions too often; wait a moment.", request_id)

    def refuse_listener(self, principal: Principal, request_id: RequestId | None) -> Rejection | None:
        if self.draining:
            return shutting_down(request_id)
        if self.listeners.count(principal) >= settings.MAX_LISTEN_STREAMS_PER_PRINCIPAL:
            return too_many("Too many subscriptions of yours are open; close one.", request_id)
        if len(self.listeners.open) >= settings.MAX_LISTEN_STREAMS:
            return too_many("The server holds as many subscriptions as it can; try again later.", request_id)
        return None


def too_many(message: str, request_id: RequestId | None) -> Rejection:
    """429: this caller, or everybody together, has as much as may be."""
    return refuse(TOO_MANY_REQUESTS, message, request_id, headers=RETRY_AFTER)


def shutting_down(request_id: RequestId | None = None) -> Rejection:
    """503: this process takes no new work; another may."""
    return refuse(
        UNAVAILABLE,
        "The server process is shutting down; try again in a moment.",
        request_id,
        headers=RETRY_AFTER,
    )
