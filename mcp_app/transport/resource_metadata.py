"""The document by which clients find out who issues tokens for an endpoint, at its well-known path.

Public, the same for everybody and made of settings: browsers of any origin may read it, and anybody may keep it for an
hour. Refuses to look at who asks, or at which name. Source: RFC 9728 §3, 2026-07-28 basic/authorization.
"""

import logging
from typing import Any, Final
from urllib.parse import unquote

from mcp_app.auth.oauth.resource import WELL_KNOWN, ProtectedResource, protected_resource
from mcp_app.conf import settings
from mcp_app.protocol.errors import HTTPFields
from mcp_app.transport.http import Response, Send
from mcp_app.transport.paths import local_path
from mcp_app.transport.responder import PeerGoneError

logger = logging.getLogger(__name__)

METHODS: Final = b"GET, HEAD, OPTIONS"
SHARED: Final[HTTPFields] = ((b"access-control-allow-origin", b"*"),)
KEPT: Final[HTTPFields] = ((b"cache-control", b"public, max-age=3600"),)
# Clients in browsers name their protocol version, which is why they ask first.
PREFLIGHT: Final[HTTPFields] = (
    (b"access-control-allow-methods", METHODS),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"3600"),
)


def described_at(path: str) -> ProtectedResource | None:
    """The resource whose metadata clients look for at this path (below the mount, decoded): its own path, or
    where there is one endpoint the root's, to which they fall back."""
    if not path.startswith(WELL_KNOWN):
        return None
    resources = [found for endpoint in settings.endpoints if (found := protected_resource(endpoint)) is not None]
    if path == WELL_KNOWN and len(settings.endpoints) == 1:
        return resources[0] if resources else None
    return next((each for each in resources if path == unquote(each.metadata_path)), None)


async def resource_metadata(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """An ASGI application: the document at its paths, 404 at others."""
    response = Response(send, scope)
    try:
        await _answer(response, scope["method"], described_at(local_path(scope)))
    except PeerGoneError as error:
        logger.info("a response was not delivered: %s", error)


async def _answer(response: Response, method: str, resource: ProtectedResource | None) -> None:
    if resource is None:
        await response.empty(404, ())
    elif method == "GET":
        await response.json(resource.metadata, fields=(*SHARED, *KEPT))
    elif method == "HEAD":
        await response.head(resource.metadata, (*SHARED, *KEPT))
    elif method == "OPTIONS":
        await response.empty(200, (*SHARED, *PREFLIGHT))
    else:
        await response.empty(405, (*SHARED, (b"allow", METHODS)))
