"""Wake-ups: datagrams that make a process query its rows again.

Theory of operation
-------------------

1. A wake-up only names requests whose rows have changed, or says that any row may have. The rows have the facts, so a
   wake-up can be lost, repeated or forged without harm. Every receiver also queries on a timer.
2. A server process listens on a datagram socket that is named after its boot id; so does the watcher of each worker
   process. A process on the same host reaches it without a broker.
3. From another host, the Channels layer carries the wake-up, if one is configured that crosses processes.
4. Nothing waits for a wake-up to be sent: the sockets do not block, and the layer has an event loop of its own.
5. Many wake-ups that arrive together are read as one.
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
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any
from uuid import UUID

from channels.layers import InMemoryChannelLayer, get_channel_layer

from mcp_app.models import Process, Request
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

LAYER_SECONDS = 2.0
"""How long sending to the layer may take, and how long the layer is not used after a failure."""
NAMED_AT_MOST = 32
"""The most requests that a wake-up names. With more, it names none, and any row may have changed."""
DATAGRAM_BYTES = 16 * NAMED_AT_MOST
OVERFLOWS = 10
"""The most datagrams that Linux queues in a socket (`net.unix.max_dgram_qlen`): others may have been dropped."""
_ANYTHING = b"!"
_CLOSED_BY_OTHERS = frozenset({errno.EBADF, errno.ENOTSOCK})
"""Errors of a socket that other code has closed. The next wake-up is sent from a new one."""

_layer_away_until = 0.0


def address(name: str) -> str:
    """Return the datagram address for `name`: abstract on Linux, where nothing must be deleted; otherwise a file."""
    if sys.platform == "linux":
        return f"\0mcp_app/{name}"
    return os.path.join(tempfile.gettempdir(), f"mcp-app-{name}")


def listening_socket(name: str) -> socket.socket:
    """Return a non-blocking socket that receives the wake-ups sent to `name`. Child processes do not inherit it.

    Raises `OSError` if another socket has that name.
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
    """Send a datagram to `name` on this host. Return whether a process listens there.

    A full buffer counts as received: its reader queries all rows, because it cannot know what was dropped.
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
    """Return the socket from which all threads of a process send. With `pid`, a forked process gets its own."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


@atexit.register  # at import, so that it runs after handlers that are registered later and may send wake-ups
def _close() -> None:
    if _sender.cache_info().currsize:
        _sender(os.getpid()).close()


def group(server: UUID) -> str:
    """Return the name of the Channels group of a server process."""
    return f"mcp.server.{server.hex}"


def named(payload: bytes) -> set[UUID] | None:
    """Return the requests that a wake-up names, or `None` if any row may have changed."""
    if len(payload) % 16:
        return None
    return {UUID(bytes=payload[at : at + 16]) for at in range(0, len(payload), 16)}


def receive(listener: socket.socket) -> set[UUID] | None:
    """Read all wake-ups that wait in a socket. Return the named requests, or `None` if any row may have changed."""
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
    """Wake a server process because these requests have changed, or because any row may have."""
    if server is None:
        return
    payload = b"".join(each.bytes for each in request_ids) if 0 < len(request_ids) <= NAMED_AT_MOST else _ANYTHING
    if not hint(server.hex, payload):
        _send_through_layer(group(server), payload)


def wake_those(changed: Iterable[tuple[UUID | None, UUID]]) -> None:
    """Wake the server process of each changed request, with one hint for each process.

    `changed` are pairs of a server's boot id and a request's id.
    """
    by_server: dict[UUID | None, list[UUID]] = {}
    for server, request_id in changed:
        by_server.setdefault(server, []).append(request_id)
    for server, request_ids in by_server.items():
        wake_server(server, request_ids)


def wake_waiting(row: Request) -> None:
    """Wake the server process whose client waits for a request. For a task, wake all server processes."""
    if row.task_handle is not None:
        wake_servers(request_ids=[row.pk])
    else:
        wake_server(row.server, [row.pk])


def wake_all_waiting(rows: Iterable[Request]) -> None:
    """Wake the server processes that wait for these requests, each once if possible."""
    rows = list(rows)
    wake_those((row.server, row.pk) for row in rows if row.task_handle is None)
    if tasks := [row.pk for row in rows if row.task_handle is not None]:
        wake_servers(request_ids=tasks)


def wake_servers(servers: Iterable[UUID] | None = None, request_ids: Collection[UUID] = ()) -> None:
    """Wake every live server process, because something has changed that all of them may watch."""
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
    """Return the message of a wake-up for the layer. It has no bytes, because not every layer can carry them."""
    return {"type": "mcp.look", "of": payload.hex()}


def of_layer(message: Mapping[str, Any]) -> bytes:
    """Return the payload of a message from the layer."""
    return bytes.fromhex(message["of"])


def _send_through_layer(name: str, payload: bytes) -> None:
    if layer_crosses_processes():
        asyncio.run_coroutine_threadsafe(_group_send(name, payload), _layer_loop(os.getpid()))


async def _group_send(name: str, payload: bytes) -> None:
    """Send to a group. Never raises. After a failure the layer is not used for a moment."""
    global _layer_away_until
    if time.monotonic() < _layer_away_until:
        return
    layer = get_channel_layer()
    try:
        await asyncio.wait_for(layer.group_send(name, layer_message(payload)), timeout=LAYER_SECONDS)
    except Exception as error:
        if time.monotonic() >= _layer_away_until:  # log once, though many sends fail at the same time
            why = str(error) or type(error).__name__
            logger.warning("the channel layer loses wake-ups; waiting processes poll instead: %s", why)
        _layer_away_until = time.monotonic() + LAYER_SECONDS


@cache
def _layer_loop(pid: int) -> asyncio.AbstractEventLoop:
    """Return the process's event loop for the layer, which keeps its connections. A forked process gets its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"mcp-layer-{pid}", daemon=True).start()
    return loop
