"""Authenticate a token with `jwts.bearer`."""

from mcp_app.auth.authentication import HeaderFields, HTTPConnection
from mcp_app.auth.oauth.jwts import bearer
from mcp_app.auth.principal import Principal


def authenticate_token(token: str) -> Principal | None:
    return bearer(HTTPConnection(HeaderFields([(b"authorization", f"Bearer {token}".encode())]), "192.0.2.1", "/mcp"))
