"""Check the channel layer: that it connects processes, and that messages arrive."""

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any, Final

from channels.layers import channel_layers, get_channel_layer

from mcp_app.diagnosis.examination import Finding, SharedFacts, failed, first_line, ok, warning
from mcp_app.lifecycle.liveness import wakeups

NAME: Final = "channel layer"
ARRIVAL_SECONDS: Final = 3.0
"""How long a message through the layer may take."""
CONFIGURE: Final = "Set CHANNEL_LAYERS to channels_redis.core.RedisChannelLayer (see docs/how-to/deployment.md)."


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check the layer: send a message to a group and receive it, as wake-ups are."""
    if not wakeups.layer_crosses_processes():
        yield _missing_layer(shared)
        return
    kind = type(get_channel_layer()).__name__
    try:
        took = asyncio.run(_round_trip())
    except Exception as error:
        why = f"within {ARRIVAL_SECONDS:g} s" if isinstance(error, TimeoutError) else f"({first_line(error)})"
        remedy = "Start its server, or correct CHANNEL_LAYERS; until then waiting clients receive changes later."
        yield failed(NAME, f"{kind}: a message sent through it does not arrive {why}.", remedy)
        return
    yield ok(NAME, f"{kind}: a message arrives in {took * 1000:.1f} ms.")


async def _round_trip() -> float:
    """Send and receive a message, and return the seconds that it took.

    Makes a new layer, because connections belong to the event loop that has opened them.
    """
    layer: Any = channel_layers.make_backend("default")
    try:
        async with asyncio.timeout(ARRIVAL_SECONDS):
            channel = await layer.new_channel()
            group = f"mcp.look.{channel.rpartition('!')[2][-40:]}"
            await layer.group_add(group, channel)
            began_at = time.perf_counter()
            await layer.group_send(group, wakeups.layer_message())
            await layer.receive(channel)
            took = time.perf_counter() - began_at
            await layer.group_discard(group, channel)
            return took
    finally:
        if close := getattr(layer, "close_pools", None):
            async with asyncio.timeout(ARRIVAL_SECONDS):
                await close()


def _missing_layer(shared: SharedFacts) -> Finding:
    hosts = {answer.hostname for answer in shared.worker_answers or []} | {socket.gethostname()}
    if len(hosts) == 1:
        return ok(NAME, "No channel layer connects processes; a single host needs none.")
    found = f"No channel layer connects processes, but {len(hosts)} hosts are in use ({', '.join(sorted(hosts))})."
    return warning(NAME, f"{found} Changes made by workers on other hosts are noticed only by polling.", CONFIGURE)
