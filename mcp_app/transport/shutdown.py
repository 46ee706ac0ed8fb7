"""The end of a server process, for whoever runs one.

`mcp serve` awaits `drain` before it stops its Daphne. Under other servers SIGTERM and SIGINT are chained (`signals`),
and those that speak ASGI's lifespan (uvicorn, Hypercorn) wait for `drain` there as well: twice is once.
"""

from typing import Any

from mcp_app.transport.server import existing


async def drain() -> None:
    """Refuse new calls, end listen streams gracefully, let calls end or cancel them, say that this process stops.

    Bounded by `DRAIN_SECONDS` and the bounds in `draining`. What it misses, supervision finishes.
    """
    server = existing()
    if server is not None:
        await server.stop()


async def lifespan(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The ASGI lifespan application: nothing to start, `drain` at the end."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await drain()
            await send({"type": "lifespan.shutdown.complete"})
            return
