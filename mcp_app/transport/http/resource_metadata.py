"""Serves the protected resource metadata of an endpoint, which names the issuers of its tokens.

The document depends on settings only. It is public: browsers may read it from any origin and cache
it for an hour.
Source: RFC 9728, section 3; 2026-07-28 basic/authorization.
"""

import logging
from typing import Any, Final
from urllib.parse import unquote

from mcp_app.auth.oauth.resource import WELL_KNOWN, ProtectedResource, protected_resource
from mcp_app.conf import settings
from mcp_app.protocol.errors import HTTPFields
from mcp_app.transport.http.responses import EndpointResponse, Send, local_path
from mcp_app.transport.serving.responder import PeerGoneError

logger = logging.getLogger(__name__)

METHODS: Final = b"GET, HEAD, OPTIONS"
SHARED: Final[HTTPFields] = ((b"access-control-allow-origin", b"*"),)
KEPT: Final[HTTPFields] = ((b"cache-control", b"public, max-age=3600"),)
# A client in a browser sends its protocol version in a header of MCP's own, so the browser sends a
# preflight request (OPTIONS) first.
PREFLIGHT: Final[HTTPFields] = (
    (b"access-control-allow-methods", METHODS),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"3600"),
)


def described_at(path: str) -> ProtectedResource | None:
    """Return the resource whose metadata is at this decoded path below the mount, or `None`.

    If the site has one endpoint, its metadata is also at `WELL_KNOWN` without a further path, where
    some clients look first.
    """
    if not path.startswith(WELL_KNOWN):
        return None
    resources = [found for endpoint in settings.endpoints if (found := protected_resource(endpoint)) is not None]
    if path == WELL_KNOWN and len(settings.endpoints) == 1:
        return resources[0] if resources else None
    return next((each for each in resources if path == unquote(each.metadata_path)), None)


async def resource_metadata(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """Serve the document at its paths, and 404 at others. This is an ASGI application."""
    response = EndpointResponse(send, scope)
    try:
        await _answer(response, scope["method"], described_at(local_path(scope)))
    except PeerGoneError as error:
        logger.info("a response was not delivered: %s", error)


async def _answer(response: EndpointResponse, method: str, resource: ProtectedResource | None) -> None:
    if resource is None:
        await response.empty(404, ())
    elif method == "GET":
        await response.json(resource.metadata, fields=(*SHARED, *KEPT))
    elif method == "HEAD":
        await response.json(resource.metadata, fields=(*SHARED, *KEPT), bodiless=True)
    elif method == "OPTIONS":
        await response.empty(200, (*SHARED, *PREFLIGHT))
    else:
        await response.empty(405, (*SHARED, (b"allow", METHODS)))
