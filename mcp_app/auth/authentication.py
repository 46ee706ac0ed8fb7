"""From a request's headers to its principal, or to the 401 that says what to do.

Owns no credential scheme yet: whoever asks is anonymous, where the settings allow that. Does no I/O: it runs on the
event loop.
"""

from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import UNAUTHORIZED, Rejection, refuse
from mcp_app.protocol.headers import Headers


def authenticate(headers: Headers) -> Principal | Rejection:
    """Who asks. Where nobody may be anonymous: 401 with a challenge (2026-07-28 basic/authorization)."""
    if settings.ALLOW_ANONYMOUS:
        return ANONYMOUS
    return refuse(
        UNAUTHORIZED,
        'This server serves no anonymous calls; its operator can allow them with MCP = {"ALLOW_ANONYMOUS": True}.',
        headers=((b"www-authenticate", b"Bearer"),),
    )
