"""Several endpoints as resource servers, each with its own document, challenge and audience."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.auth.authorization_server import AuthorizationServer
from tests.support.asgi_client import Connection, message, post

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.fault("G3"),
]

SITE = "https://mcp.example.com"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
ENDPOINTS: dict[str, dict[str, Any]] = {
    "public": {"PATH": "/mcp/public", "OAUTH_RESOURCE": f"{SITE}/mcp/public"},
    "staff": {"PATH": "/mcp/staff", "OAUTH_RESOURCE": f"{SITE}/mcp/staff", "OAUTH_REQUIRED_SCOPES": ["staff"]},
    "open": {"PATH": "/mcp/open", "AUTHENTICATOR": None, "ALLOW_ANONYMOUS": True},
}


async def document(path: str) -> tuple[int, Any]:
    client = Connection("GET", path)
    await client.send(b"")
    await client.head()
    body = await client.body()
    return client.status, json.loads(body) if client.status == 200 else None


async def listed(endpoint: str, token: str | None = None) -> tuple[int, str]:
    """Return the status of a request, and its challenge."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    client = await post(message("tools/list"), path=f"/mcp/{endpoint}", headers=headers)
    await client.json()
    return client.status, client.headers.get("www-authenticate", "")


async def test_each_says_who_issues_its_tokens_and_says_nothing_of_the_others(
    protected: Callable[..., None], issuer: AuthorizationServer
) -> None:
    protected("jwts", ENDPOINTS=ENDPOINTS)
    for name, scopes in (("public", None), ("staff", ["staff"])):
        status, found = await document(f"{WELL_KNOWN}/mcp/{name}")
        assert (status, found["resource"], found.get("scopes_supported")) == (200, f"{SITE}/mcp/{name}", scopes)
        status, challenge = await listed(name)
        assert (status, f'resource_metadata="{SITE}{WELL_KNOWN}/mcp/{name}"' in challenge) == (401, True)
    for path in (WELL_KNOWN, f"{WELL_KNOWN}/mcp", f"{WELL_KNOWN}/mcp/open"):
        assert (await document(path))[0] == 418
    assert await listed("open") == (200, "")


@pytest.mark.parametrize("kind", ["jwts", "introspection"])
async def test_a_token_for_one_is_no_good_at_the_other(
    protected: Callable[..., None], issuer: AuthorizationServer, kind: str
) -> None:
    # An endpoint does not inherit the site's value, because both would have the same audience.
    protected(kind, ENDPOINTS=ENDPOINTS, OAUTH_AUDIENCES=[SITE])
    issue = issuer.token if kind == "jwts" else issuer.opaque
    tokens = {name: issue(aud=f"{SITE}/mcp/{name}", scope="staff") for name in ("public", "staff")}
    for name, token in tokens.items():
        for endpoint in tokens:
            status, challenge = await listed(endpoint, token)
            assert status == (200 if name == endpoint else 401)
            assert ('error="invalid_token"' in challenge) is (name != endpoint)
    assert (await listed("public", issue(aud=SITE)))[0] == 401
    status, challenge = await listed("staff", issue(aud=f"{SITE}/mcp/staff", scope="other"))
    assert (status, 'scope="staff"' in challenge) == (403, True)
