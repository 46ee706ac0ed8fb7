"""Puts the MCP endpoints in front of a site's own ASGI application.

Requests for the endpoints, their metadata and the probes are answered here. Every other scope goes
to the site's application as the server made it, whatever its type: WebSockets and the channels of
Channels' workers too. At the end of the process running calls are drained before the site's own
shutdown begins.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from mcp_app.conf import settings
from mcp_app.transport.consumers import MCPConsumer
from mcp_app.transport.http import health as probes
from mcp_app.transport.http.resource_metadata import described_at, resource_metadata
from mcp_app.transport.http.responses import local_path
from mcp_app.transport.shutdown import lifespan_around

ASGIApplication = Callable[[Any, Any, Any], Awaitable[None]]


def asgi_path() -> str:
    """Return the dotted path of the site's ASGI application: `ASGI_APPLICATION`, or what `startproject` writes.

    The latter is in `asgi.py`, beside the module of `WSGI_APPLICATION` or in the package of `ROOT_URLCONF`.
    """
    if path := getattr(django_settings, "ASGI_APPLICATION", None):
        return str(path)
    package, is_usual, _ = str(getattr(django_settings, "WSGI_APPLICATION", None)).partition(".wsgi.")
    return f"{package if is_usual else str(django_settings.ROOT_URLCONF).partition('.')[0]}.asgi.application"


def mcp_application(site: Any, path: str | None = None, *, health: str | None = None) -> ASGIApplication:
    """Return an ASGI application that serves MCP, and `site` everywhere else.

    Example, in `asgi.py`::

        application = mcp_application(get_asgi_application())

    - `site`: any ASGI application, such as Django's, a Channels `ProtocolTypeRouter`, a plain
      function, or one made of a WSGI application.
    - `path` (str): where MCP is served, with or without a slash at its end. `None`: at
      `MCP["PATH"]`. If the settings have `ENDPOINTS`, each is at its own path, and this must be
      left out.
    - `health` (str): a path, such as `/health`, below which the probes `live` and `ready` are
      served, for any Host header and without Django's middleware (`docs/how-to/operations.md`). `None`:
      there are none.

    With `OAUTH_RESOURCE` and `OAUTH_ISSUERS` the metadata of that resource is served as well.

    Raises `ImproperlyConfigured` if two endpoints have the same path, or if both `path` and
    `ENDPOINTS` are given. Source: 2026-07-28 basic/transports/streamable-http; RFC 9728.
    """
    endpoints: dict[str, Any] = {} if health is None else probes.paths(health)
    for endpoint, found in _paths(path).items():
        application = MCPConsumer.as_asgi(endpoint=endpoint)
        endpoints |= {found.rstrip("/"): application, found.rstrip("/") + "/": application}
    lifespan = lifespan_around(site)

    async def application_with_mcp(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await lifespan(scope, receive, send)
        elif scope["type"] != "http":
            await site(scope, receive, send)
        elif (local := local_path(scope)) in endpoints:
            await endpoints[local](scope, receive, send)
        elif described_at(local) is not None:
            await resource_metadata(scope, receive, send)
        else:
            await site(scope, receive, send)

    return application_with_mcp


def _paths(path: str | None) -> dict[str, str]:
    """Return the path of each endpoint, by its name."""
    if path is not None and settings.ENDPOINTS:
        raise ImproperlyConfigured('MCP["ENDPOINTS"] says where MCP is served: call mcp_application without a path.')
    paths = {endpoint: path or settings.at(endpoint).PATH for endpoint in settings.endpoints}
    if len({each.rstrip("/") for each in paths.values()}) < len(paths):
        raise ImproperlyConfigured('Two of MCP["ENDPOINTS"] have the same PATH; give each its own.')
    return paths
