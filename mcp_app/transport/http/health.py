"""The probes' endpoints as ASGI applications, for `mcp_application`.

`mcp_app.health` has them as Django views.

They run before the site: no host name is checked, and no middleware runs.
"""

import logging
from typing import Any, Final

from mcp_app.protocol.errors import HTTPFields
from mcp_app.transport.http.readiness import LIVE, ready
from mcp_app.transport.http.responses import EndpointResponse, Send
from mcp_app.transport.serving.responder import PeerGoneError

logger = logging.getLogger(__name__)

UNKEPT: Final[HTTPFields] = ((b"cache-control", b"no-store"),)
ALLOWED: Final[HTTPFields] = ((b"allow", b"GET, HEAD"),)


def paths(prefix: str) -> dict[str, Any]:
    """Return the two applications by path, with and without a trailing slash."""
    base = prefix.rstrip("/")
    return {f"{base}/{name}{slash}": each for name, each in (("live", live), ("ready", readied)) for slash in ("", "/")}


async def live(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """Answer 200, because this process answers."""
    await _respond(scope, send, *LIVE)


async def readied(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """Answer with `readiness.ready`."""
    await _respond(scope, send, *(await ready() if scope["method"] in ("GET", "HEAD") else LIVE))


async def _respond(scope: dict[str, Any], send: Send, status: int, state: dict[str, Any]) -> None:
    response = EndpointResponse(send, scope)
    try:
        if scope["method"] == "GET":
            await response.json(state, status, UNKEPT)
        elif scope["method"] == "HEAD":
            await response.json(state, status, UNKEPT, bodiless=True)
        else:
            await response.empty(405, ALLOWED)
    except PeerGoneError as error:
        logger.info("a probe was not answered: %s", error)
