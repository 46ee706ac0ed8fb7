"""Limits the requests and streams of a server process, in total and per caller.

There are limits on how many are open, on how often a caller may send requests, and on the bytes of
request bodies in memory. While the process drains, nothing is admitted. All counts are of this
process; `lifecycle.limits` counts rows. Methods named `refuse_…` return the `Rejection` to send, or
`None`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.catalogue import Excess
from mcp_app.conf import settings
from mcp_app.lifecycle.limits import capacity
from mcp_app.protocol.errors import (
    TOO_MANY_REQUESTS,
    UNAVAILABLE,
    Rejection,
    RequestId,
    refuse_for_load,
)

T = TypeVar("T")

BUSY = "The server is busy; try again in a moment."
MAX_BUCKETS: Final = 4_096
"""Token buckets in memory. Beyond that the least recently used are dropped; most of those are full
again."""


class TokenBuckets:
    """Limits the rate of each key to `burst` times at once, and to `per_second` on average."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float, *, burst: float, per_second: float) -> float:
        """Take one token of `key` and return 0.

        If there is none, return the seconds until there will be one.
        """
        tokens, since = self._buckets.pop(key, (burst, now))
        tokens = min(burst, tokens + (now - since) * per_second)
        taken = tokens >= 1
        # The most recently used comes last, so that the first is the one to forget.
        self._buckets[key] = (tokens - 1 if taken else tokens), now
        if len(self._buckets) > MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if taken else (1 - tokens) / per_second


class AdmittedStreams(Generic[T]):
    """The open streams of one kind, counted by caller.

    `what` and `advice` are words of the message that refuses another one.
    """

    def __init__(self, what: str = "requests", advice: str = "wait for one to end") -> None:
        self.open: set[T] = set()
        self._what = what
        self._advice = advice
        self._counts: Counter[Hashable] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()

    def refuse_more(self, principal: Principal, at_most: int, request_id: RequestId | None) -> Rejection | None:
        """Refuse one more if the caller, or all anonymous callers together, have reached the limit."""
        if self._counts[_caller(principal)] >= at_most:
            return too_many(f"Too many {self._what} of yours are open; {self._advice}.", request_id)
        # Anonymous callers share one principal.
        if principal.is_anonymous and self._counts[principal] >= capacity.limit_together(at_most):
            message = f"Too many {self._what} of callers without a credential are open; try again later."
            return unavailable(message, request_id)
        return None

    @contextmanager
    def hold(self, principal: Principal, stream: T) -> Iterator[None]:
        self.add(principal, stream)
        try:
            yield
        finally:
            self.remove(principal, stream)

    def add(self, principal: Principal, stream: T) -> None:
        self.open.add(stream)
        self._counts.update((principal, _caller(principal)))
        self._empty.clear()

    def remove(self, principal: Principal, stream: T) -> None:
        """Remove a stream; does nothing if it was removed before."""
        if stream not in self.open:
            return
        self.open.remove(stream)
        for counted in (principal, _caller(principal)):
            self._counts[counted] -= 1
            if not self._counts[counted]:
                del self._counts[counted]
        if not self.open:
            self._empty.set()

    async def wait_until_empty(self, seconds: float) -> bool:
        """Wait until none is open, for at most `seconds`. Returns whether none is."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True


class Serving:
    """A context manager that counts the requests being served.

    No generator, because every request enters it.
    """

    def __init__(self) -> None:
        self.requests = 0

    def __enter__(self) -> None:
        self.requests += 1

    def __exit__(self, *raised: object) -> None:
        self.requests -= 1


class OpenCall(Protocol):
    """A `tools/call` whose client is waiting."""

    async def cancel_for_shutdown(self) -> None:
        """Cancel its work; the client still gets a result."""


class EndableStream(Protocol):
    """An open `subscriptions/listen`, or a read that waits for its user."""

    def end(self) -> None:
        """Make it end gracefully, soon."""


class Admission:
    """The open requests of one server process, and the decision whether to admit more."""

    def __init__(self) -> None:
        self.calls: AdmittedStreams[OpenCall] = AdmittedStreams("calls")
        self.reads: AdmittedStreams[object] = AdmittedStreams()
        self.asking: AdmittedStreams[EndableStream] = AdmittedStreams()
        """Reads that may wait for their user. Their questions are counted as rows."""
        self.listeners: AdmittedStreams[EndableStream] = AdmittedStreams("subscriptions", "close one")
        self.draining = False
        self.body_bytes = 0
        """Bytes of request bodies that are arriving."""
        self.detached = 0
        """Responses that stay open after their handler has returned."""
        self.serving = Serving()
        self._requests = TokenBuckets()
        self._completions = TokenBuckets()

    def refuse_request(self, principal: Principal) -> Rejection | None:
        """Refuse a request if its caller exceeds the rate, or if this process has too many open."""
        wait = self._requests.take(
            _caller(principal), time.monotonic(), burst=settings.REQUEST_BURST, per_second=settings.REQUEST_RATE
        )
        if wait:
            return too_many("You are sending requests too often; wait a moment.", None, retry_after=wait)
        if self.serving.requests + self.detached - len(self.listeners.open) >= settings.MAX_OPEN_REQUESTS:
            return unavailable(BUSY, None)
        return None

    def refuse_body(self) -> Rejection | None:
        """Refuse a body if this process holds too many bytes of bodies."""
        return unavailable(BUSY, None) if self.body_bytes > settings.MAX_HELD_BODY_BYTES else None

    def refuse_call(self, principal: Principal, request_id: RequestId | None) -> Rejection | None:
        if self.draining:
            return shutting_down(request_id)
        return self.calls.refuse_more(principal, settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL, request_id)

    def refuse_read(self, principal: Principal, request_id: RequestId) -> Rejection | None:
        if self.draining:
            return shutting_down(request_id)
        return self.reads.refuse_more(principal, settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL, request_id)

    def refuse_completion(self, principal: Principal, request_id: RequestId) -> Rejection | None:
        """Refuse a completion if its caller requests too many per second.

        Enough of them would reveal all values.
        """
        wait = self._completions.take(
            _caller(principal),
            time.monotonic(),
            burst=settings.COMPLETION_BURST,
            per_second=settings.COMPLETION_RATE,
        )
        if not wait:
            return None
        return too_many("You are requesting completions too often; wait a moment.", request_id, retry_after=wait)

    def refuse_listener(self, principal: Principal, request_id: RequestId | None) -> Rejection | None:
        if self.draining:
            return shutting_down(request_id)
        refusal = self.listeners.refuse_more(principal, settings.MAX_LISTEN_STREAMS_PER_PRINCIPAL, request_id)
        if refusal is not None:
            return refusal
        if len(self.listeners.open) >= settings.MAX_LISTEN_STREAMS:
            return unavailable("The server has no room for another subscription; try again later.", request_id)
        return None


def _caller(principal: Principal) -> Hashable:
    """Return the key by which a caller is counted.

    Anonymous callers share one principal but differ by network.
    """
    return principal, principal.network


def too_many(message: str, request_id: RequestId | None, *, retry_after: float | None = None) -> Rejection:
    """429: this caller has reached a limit.

    `retry_after` is in seconds; the default is `RETRY_AFTER`.
    """
    wait = settings.RETRY_AFTER if retry_after is None else retry_after
    return refuse_for_load(TOO_MANY_REQUESTS, message, request_id, retry_after=wait)


def unavailable(message: str, request_id: RequestId | None) -> Rejection:
    """503: the server has reached a limit, for all callers."""
    return refuse_for_load(UNAVAILABLE, message, request_id, retry_after=settings.RETRY_AFTER)


def excessive(excess: Excess, request_id: RequestId) -> Rejection:
    """Return the rejection of a call that exceeds a limit."""
    if excess.is_callers:
        return too_many(excess.words, request_id, retry_after=excess.retry_after)
    return unavailable(excess.words, request_id)


def shutting_down(request_id: RequestId | None = None) -> Rejection:
    """503: this process takes no new work; another one may."""
    return unavailable("The server process is shutting down; try again in a moment.", request_id)
