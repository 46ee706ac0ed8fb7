"""Who asks without a credential: everybody, who is on this machine, or nobody.

Unless the site says otherwise that is whoever develops it: under DEBUG, where no authenticator is named, from this
machine. Refuses to take a proxy that runs here for whom it speaks for.
"""

import ipaddress
from dataclasses import replace
from functools import cache
from typing import Final

from django.conf import settings as django_settings

from mcp_app.auth.challenges import unauthorized
from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import Rejection

_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""What proxies add, and tunnels that bring the world to a developer's port."""


def is_allowed(endpoint: str) -> bool:
    """Whether anybody may call without a credential, be it from this machine alone."""
    own = settings.at(endpoint)
    if own.PERMISSIONS or own.GROUPS:
        return False
    if own.ALLOW_ANONYMOUS is None:
        return bool(django_settings.DEBUG) and own.AUTHENTICATOR is None
    return bool(own.ALLOW_ANONYMOUS)


def is_for_everybody(endpoint: str) -> bool:
    """Whether anybody may, from wherever."""
    return bool(settings.at(endpoint).ALLOW_ANONYMOUS) and is_allowed(endpoint)


def anonymous(connection: HTTPConnection) -> Principal | Rejection:
    """Who asks without a credential. Where nobody may: 401 with a challenge (2026-07-28 basic/authorization)."""
    endpoint, own = connection.endpoint, settings.at(connection.endpoint)
    if is_for_everybody(endpoint) or (is_allowed(endpoint) and is_local(connection)):
        return _anonymous_at(endpoint)
    if own.AUTHENTICATOR is not None:
        message = "The server does not accept this call's credentials, or it has none; send those of its operator."
    elif is_allowed(endpoint):
        message = (
            "Without credentials only calls from this server's own machine are served; send those of its operator."
        )
    else:
        message = (
            'This server serves no anonymous calls; its operator can let callers in with MCP["AUTHENTICATOR"] = '
            '"mcp_app.auth.tokens.bearer", or everybody with MCP["ALLOW_ANONYMOUS"] = True.'
        )
    return unauthorized(message, endpoint)


@cache
def _anonymous_at(endpoint: str) -> Principal:
    return replace(ANONYMOUS, endpoint=endpoint)


def is_local(connection: HTTPConnection) -> bool:
    """Whether it comes from this machine, and not through a proxy on it."""
    try:
        address = ipaddress.ip_address(connection.remote_address)
    except ValueError:  # a server that does not know it
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback and not any(name in connection.headers for name in _FORWARDED)
