"""A response that stays open after its handler has returned, and how its consumer waits with it: in the one task that
the web server has made for the request anyway.

Refuses to write to it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

Receive = Callable[[], Awaitable[dict[str, Any]]]


class Remaining(Protocol):
    """A stream that others write to."""

    @property
    def over(self) -> bool:
        """Whether it has ended by itself."""

    def when_over(self, tell: Callable[[], object]) -> None:
        """Have `tell` called once it has ended by itself, which it has not yet."""

    def leave(self) -> None:
        """Its client has left, or its process ends: give back whatever it holds. Again: nothing."""


async def stay(remaining: Remaining, receive: Receive) -> None:
    """Wait until the client leaves or the stream has ended."""
    presence = asyncio.timeout(None)

    def end() -> None:
        with suppress(RuntimeError):  # the client left at that very moment
            presence.reschedule(0)

    with suppress(TimeoutError):
        async with presence:
            remaining.when_over(end)
            while not remaining.over and (await receive())["type"] != "http.disconnect":
                pass
