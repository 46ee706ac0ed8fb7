"""The endpoints of probes as an ASGI application, before anything of the site: no name is checked, no middleware runs.

For `mcp_application`. The same as Django's views is `mcp_app.health`.
"""

import logging
from typing import Any, Final

from mcp_app.protocol.errors import HTTPFields
from mcp_app.transport.http import Response, Send
from mcp_app.transport.readiness import LIVE, ready
from mcp_app.transport.responder import PeerGoneError

logger = logging.getLogger(__name__)

UNKEPT: Final[HTTPFields] = ((b"cache-control", b"no-store"),)
ALLOWED: Final[HTTPFields] = ((b"allow", b"GET, HEAD"),)


def paths(prefix: str) -> dict[str, Any]:
    """The two applications by their paths, with and without a slash at the end."""
    base = prefix.rstrip("/")
    return {f"{base}/{name}{slash}": each for name, each in (("live", live), ("ready", readied)) for slash in ("", "/")}


async def live(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """200: this process answers."""
    await _respond(scope, send, *LIVE)


async def readied(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """As `readiness.ready`."""
    await _respond(scope, send, *(await ready() if scope["method"] in ("GET", "HEAD") else LIVE))


async def _respond(scope: dict[str, Any], send: Send, status: int, told: dict[str, Any]) -> None:
    response = Response(send, scope)
    try:
        if scope["method"] == "GET":
            await response.json(told, status, UNKEPT)
        elif scope["method"] == "HEAD":
            await response.head(told, UNKEPT, status)
        else:
            await response.empty(405, ALLOWED)
    except PeerGoneError as error:
        logger.info("a probe was not answered: %s", error)
