"""Wake-ups: hints to look at the rows again, at all or at those named. They tell nothing of them, may be lost, and are
never waited for.

A server process listens on a datagram socket named by its boot id, so a worker on the same host reaches it without a
broker; from another host the Channels layer carries the hint, where one is configured that crosses processes.
"""

import asyncio
import atexit
import errno
import logging
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any
from uuid import UUID

from channels.layers import InMemoryChannelLayer, get_channel_layer

from mcp_app.models import Process, Request
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

LAYER_SECONDS = 2.0
"""What a word to the layer may take, and for how long it is left alone when it took none."""
NAMED_AT_MOST = 32
"""Requests that one hint names; of more it says that something has changed."""
DATAGRAM_BYTES = 16 * NAMED_AT_MOST
OVERFLOWS = 10
"""Hints that may be all that Linux lets wait in a socket (`net.unix.max_dgram_qlen`): there may have been others."""
LONGEST_KEPT = 0.02
"""Seconds from the first of several calls on in which hints of their ends wait for one another: later each is told
before the next call, which may run for long."""
_ANYTHING = b"!"
_CLOSED_BY_OTHERS = frozenset({errno.EBADF, errno.ENOTSOCK})
"""Of a descriptor that is not ours any more: the next hint is sent from another."""

_layer_away_until = 0.0


def address(name: str) -> str:
    """The datagram address for `name`: abstract on Linux (nothing to clean up), a socket file elsewhere."""
    if sys.platform == "linux":
        return f"\0mcp_app/{name}"
    return os.path.join(tempfile.gettempdir(), f"mcp-app-{name}")


def listening_socket(name: str) -> socket.socket:
    """A non-blocking datagram socket that receives the hints sent to `name`; not inherited by child processes.

    Raises OSError where another has that name.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        listener.setblocking(False)
        listener.bind(address(name))
    except OSError:
        listener.close()
        raise
    return listener


def hint(name: str, payload: bytes = _ANYTHING) -> bool:
    """Send one datagram to `name` on this host; whether somebody listens there.

    A full buffer counts as heard: who empties it looks at all, as it cannot know what was not let in.
    """
    try:
        _sender(os.getpid()).sendto(payload, address(name))
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno in _CLOSED_BY_OTHERS:
            _sender(os.getpid()).detach()
            _sender.cache_clear()
        return False
    return True


@cache
def _sender(pid: int) -> socket.socket:
    """The socket from which all threads of a process send; `pid` keys it across a fork."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


@atexit.register  # here, so that it is done after what was registered later, which may have something to say
def _close() -> None:
    if _sender.cache_info().currsize:
        _sender(os.getpid()).close()


def group(server: UUID) -> str:
    """The Channels group of one server process."""
    return f"mcp.server.{server.hex}"


def named(payload: bytes) -> set[UUID] | None:
    """The requests that a hint names; None: anything may have changed."""
    if len(payload) % 16:
        return None
    return {UUID(bytes=payload[at : at + 16]) for at in range(0, len(payload), 16)}


def heard(listener: socket.socket) -> set[UUID] | None:
    """All hints that wait in a socket, as one: the requests that are named; None: anything may have changed."""
    requests: set[UUID] = set()
    anything, hints = False, 0
    with suppress(BlockingIOError):
        while True:
            ids = named(listener.recv(DATAGRAM_BYTES))
            hints += 1
            anything = anything or ids is None
            requests.update(ids or ())
    return None if anything or hints >= OVERFLOWS else requests


def wake_server(server: UUID | None, request_ids: Collection[UUID] = ()) -> None:
    """Hint to one server process that these rows have changed; none: that something it waits for has."""
    if server is None:
        return
    payload = b"".join(each.bytes for each in request_ids) if 0 < len(request_ids) <= NAMED_AT_MOST else _ANYTHING
    if not hint(server.hex, payload):
        _send_through_layer(group(server), payload)


def wake_those(changed: Iterable[tuple[UUID | None, UUID]]) -> None:
    """Hint to the server process of each, in one word to each process. Of pairs: the server, the request."""
    by_server: dict[UUID | None, list[UUID]] = {}
    for server, request_id in changed:
        by_server.setdefault(server, []).append(request_id)
    for server, request_ids in by_server.items():
        wake_server(server, request_ids)


class Together:
    """Hints to those who wait for requests that end one after another in one thread, in one word to each server.

    A server answers all of them in one turn, and has their clients' next calls in one.
    """

    def __init__(self, request_ids: Collection[UUID]) -> None:
        self._request_ids = request_ids
        self._kept: list[tuple[UUID | None, UUID]] = []
        self._began_at = time.monotonic()

    def keeps(self, row: Request) -> bool:
        """Whether a hint of this row is kept: not of one that is none of these, nor of what is late."""
        if row.pk not in self._request_ids or self._is_due:
            return False
        self._kept.append((row.server, row.pk))
        return True

    def tell_if_due(self) -> None:
        """After each call."""
        if self._is_due:
            self.tell()

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self._began_at >= LONGEST_KEPT

    def tell(self) -> None:
        """Never raises, as what is waited for is in the rows."""
        kept, self._kept = self._kept, []
        try:
            wake_those(kept)
        except Exception:
            logger.exception("who waits for %d requests looks again by themselves", len(kept))


_together: ContextVar[Together | None] = ContextVar("mcp_app_hints_together", default=None)


@contextmanager
def kept_together(request_ids: Collection[UUID]) -> Iterator[Together]:
    """Have hints to those who wait for these requests, which end within, told together: at the end or when they are
    due."""
    together = Together(request_ids)
    token = _together.set(together)
    try:
        yield together
    finally:
        _together.reset(token)
        together.tell()


def wake_waiting(row: Request) -> None:
    """Hint to whoever may wait for a request: the server of its client; of a task, which has none, any."""
    if row.task_handle is not None:
        wake_servers(request_ids=[row.pk])
    elif (together := _together.get()) is None or not together.keeps(row):
        wake_server(row.server, [row.pk])


def wake_servers(servers: Iterable[UUID] | None = None, request_ids: Collection[UUID] = ()) -> None:
    """Hint to every live server process: something that all of them may watch has changed."""
    if servers is None:
        servers = Process.objects.filter(role=ProcessRole.SERVER, stopped_at__isnull=True).values_list(
            "boot_id", flat=True
        )
    for server in servers:
        wake_server(server, request_ids)


def layer_crosses_processes() -> bool:
    layer = get_channel_layer()
    return layer is not None and not isinstance(layer, InMemoryChannelLayer)


def layer_message(payload: bytes = _ANYTHING) -> dict[str, str]:
    """What the layer carries of a hint; in letters, as not every layer carries bytes."""
    return {"type": "mcp.look", "of": payload.hex()}


def of_layer(message: Mapping[str, Any]) -> bytes:
    """The payload that a layer's message carries."""
    return bytes.fromhex(message["of"])


def _send_through_layer(name: str, payload: bytes) -> None:
    if layer_crosses_processes():
        asyncio.run_coroutine_threadsafe(_group_send(name, payload), _layer_loop(os.getpid()))


async def _group_send(name: str, payload: bytes) -> None:
    """Never raises. After a failure the layer is left alone for a moment: a flood of progress is none of failures."""
    global _layer_away_until
    if time.monotonic() < _layer_away_until:
        return
    layer = get_channel_layer()
    try:
        await asyncio.wait_for(layer.group_send(name, layer_message(payload)), timeout=LAYER_SECONDS)
    except Exception as error:
        if time.monotonic() >= _layer_away_until:  # of those under way at once, one says so
            why = str(error) or type(error).__name__
            logger.warning("the channel layer loses wake-ups; waiters look again by themselves: %s", why)
        _layer_away_until = time.monotonic() + LAYER_SECONDS


@cache
def _layer_loop(pid: int) -> asyncio.AbstractEventLoop:
    """One event loop per process for the layer, so that its connections are kept; `pid` keys it across a fork."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"mcp-layer-{pid}", daemon=True).start()
    return loop
