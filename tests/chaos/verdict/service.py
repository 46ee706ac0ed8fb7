"""Checks that the site serves normally: it answers at once, every slot takes a call, and every stream can be opened."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from tests.chaos.clients.conversation import BROKEN
from tests.chaos.site import Site
from tests.support.site.wire import Connection, message

DISCOVER_SECONDS: Final = 1.0
TRIES: Final = 5
"""The fastest of this many answers counts, because the machine is shared."""
STREAMS: Final = 10
"""The number of streams that the site's settings allow a caller at one server."""


def findings(site: Site) -> Iterator[str]:
    for kept, port in zip(site.kept_servers, site.ports, strict=True):
        try:
            took = min(_discover(port) for _ in range(TRIES))
        except BROKEN as error:
            yield f"{kept.name} does not answer server/discover: {error!r}"
            continue
        if took > DISCOVER_SECONDS:
            yield f"{kept.name} answers server/discover in {took:.2f} s"
        yield from _streams(kept.name, port)
    yield from _slots(site)


def _discover(port: int) -> float:
    began_at = time.monotonic()
    connection = Connection(port)
    connection.wait_at_most(20)
    connection.post(message("server/discover"))
    assert connection.answer()["result"]["supportedVersions"]
    connection.close()
    return time.monotonic() - began_at


def _streams(name: str, port: int) -> Iterator[str]:
    """Open as many streams as are allowed, all at the same time."""
    with ExitStack() as exits:
        for number in range(STREAMS):
            connection = Connection(port)
            exits.callback(connection.close)
            connection.wait_at_most(20)
            connection.post(message("subscriptions/listen", notifications={"toolsListChanged": True}))
            if not connection.is_stream:
                yield f"{name} refuses stream {number + 1} of {STREAMS}: {connection.response.read()[:200]!r}"
                return
            next(connection.messages())


def _slots(site: Site) -> Iterator[str]:
    """Check that every slot runs a call at the same time."""
    folder = site.data / "guests"
    folder.mkdir()
    guests = site.all_slots

    def meet(number: int) -> str:
        connection = site.to(number)
        try:
            connection.wait_at_most(60)
            body = {"folder": str(folder), "name": str(number), "guests": guests}
            connection.post(message("tools/call", name="chaos_meet", arguments=body))
            return str(connection.answer()["result"]["content"][0]["text"])
        finally:
            connection.close()

    with ThreadPoolExecutor(guests) as pool:
        said = list(pool.map(meet, range(guests)))
    if said != ["met"] * guests:
        yield f"of {guests} slots not all take a call: {said}"
