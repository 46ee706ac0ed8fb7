"""An endpoint that is a resource server, and its authorization server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_app.auth.oauth import fetching, jwts
from tests.auth.authorization_server import CLIENT_ID, CLIENT_SECRET, RESOURCE, AuthorizationServer, running


@pytest.fixture
def issuer() -> Iterator[AuthorizationServer]:
    with running() as server:
        yield server


@pytest.fixture
def protected(configure: Any, issuer: AuthorizationServer) -> Iterator[Callable[..., None]]:
    """Make the endpoint accept this issuer's tokens, with one of the two authenticators."""

    def change(kind: str, **values: Any) -> None:
        configure(
            ALLOW_ANONYMOUS=False,
            ALLOWED_HOSTS=["testserver"],
            DRAIN_SECONDS=0.1,
            AUTHENTICATOR=f"mcp_app.auth.oauth.{kind}.bearer",
            OAUTH_RESOURCE=RESOURCE,
            OAUTH_ISSUERS=[issuer.issuer],
            OAUTH_JWKS_URLS={issuer.issuer: f"{issuer.issuer}/keys"},
            OAUTH_INTROSPECTION_URL=f"{issuer.issuer}/introspect",
            OAUTH_CLIENT_ID=CLIENT_ID,
            OAUTH_CLIENT_SECRET=CLIENT_SECRET,
        )
        configure(**values)

    yield change
    fetching._retry_at.clear()
    jwts.key_set.cache_clear()
