"""Wake-ups: hints to look at the rows again. They carry no data, may be lost, and are never waited for.

A server process listens on a datagram socket named by its boot id, so a worker on the same host reaches it without a
broker; from another host the Channels layer carries the hint, where one is configured that crosses processes.
"""

import asyncio
import logging
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from functools import cache
from uuid import UUID

from channels.layers import InMemoryChannelLayer, get_channel_layer

from mcp_app.models import Process, Request
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

LAYER_MESSAGE = {"type": "mcp.look"}
LAYER_SECONDS = 2.0
"""What a word to the layer may take, and for how long it is left alone when it took none."""
_HINT = b"!"

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


def hint(name: str, payload: bytes = _HINT) -> bool:
    """Send one datagram to `name` on this host; whether somebody listens there. A full buffer counts as heard."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(payload, address(name))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def group(server: UUID) -> str:
    """The Channels group of one server process."""
    return f"mcp.server.{server.hex}"


def wake_server(server: UUID | None) -> None:
    """Hint to one server process that a row it waits for has changed."""
    if server is not None and not hint(server.hex):
        _send_through_layer(group(server))


def wake_waiting(row: Request) -> None:
    """Hint to whoever may wait for a request: the server of its client; of a task, which has none, any."""
    if row.task_handle is not None:
        wake_servers()
    else:
        wake_server(row.server)


def wake_servers(servers: Iterable[UUID] | None = None) -> None:
    """Hint to every live server process: something that all of them watch has changed."""
    if servers is None:
        servers = Process.objects.filter(role=ProcessRole.SERVER, stopped_at__isnull=True).values_list(
            "boot_id", flat=True
        )
    for server in servers:
        wake_server(server)


def layer_crosses_processes() -> bool:
    layer = get_channel_layer()
    return layer is not None and not isinstance(layer, InMemoryChannelLayer)


def _send_through_layer(name: str) -> None:
    if layer_crosses_processes():
        asyncio.run_coroutine_threadsafe(_group_send(name), _layer_loop(os.getpid()))


async def _group_send(name: str) -> None:
    """Never raises. After a failure the layer is left alone for a moment: a flood of progress is none of failures."""
    global _layer_away_until
    if time.monotonic() < _layer_away_until:
        return
    layer = get_channel_layer()
    try:
        await asyncio.wait_for(layer.group_send(name, LAYER_MESSAGE), timeout=LAYER_SECONDS)
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
