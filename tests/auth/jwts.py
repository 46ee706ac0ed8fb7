"""What `jwts.bearer` makes of a token."""

from mcp_app.auth.connection import HeaderFields, HTTPConnection
from mcp_app.auth.oauth.jwts import bearer
from mcp_app.auth.principal import Principal


def asked_with(token: str) -> Principal | None:
    return bearer(HTTPConnection(HeaderFields([(b"authorization", f"Bearer {token}".encode())]), "192.0.2.1", "/mcp"))
