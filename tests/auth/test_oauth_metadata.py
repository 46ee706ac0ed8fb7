"""Clients find the issuer of tokens for the endpoint (RFC 9728), and requests cannot change it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
    handle_protected_resource_response,
)
from mcp.shared.auth import OAuthClientMetadata

from mcp_app.routing import mcp_application
from mcp_app.transport.http.resource_metadata import resource_metadata
from tests.auth.asking import ask
from tests.auth.authorization_server import RESOURCE, AuthorizationServer
from tests.auth.client_storage import Storage
from tests.support.asgi_client import VERSION, Connection, _no_site, message, run

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

WELL_KNOWN = "/.well-known/oauth-protected-resource"
PATHS = [f"{WELL_KNOWN}/mcp", WELL_KNOWN]


def got(path: str, method: str = "GET", headers: dict[str, str] | None = None) -> tuple[Connection, bytes]:
    found: list[tuple[Connection, bytes]] = []

    async def scenario() -> None:
        client = Connection(method, path, headers)
        await client.send(b"")
        await client.head()
        found.append((client, await client.body()))

    run(scenario())
    return found[0]


@pytest.mark.fault("G3")
@pytest.mark.parametrize("path", PATHS)
def test_G3_the_metadata_is_served_to_everybody_at_the_paths_where_clients_look(
    protected: Callable[..., None], issuer: AuthorizationServer, path: str
) -> None:
    protected("jwts", OAUTH_REQUIRED_SCOPES=["mcp"], SERVER_TITLE="Example")
    client, body = got(path, headers={"origin": "https://inspector.example.org"})
    assert client.status == 200
    assert json.loads(body) == {
        "resource": RESOURCE,
        "authorization_servers": [issuer.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Example",
        "scopes_supported": ["mcp"],
    }
    assert client.headers["content-type"] == "application/json"
    assert client.headers["access-control-allow-origin"] == "*"
    assert client.headers["cache-control"] == "public, max-age=3600"
    head, nothing = got(path, "HEAD")
    assert (head.status, nothing) == (200, b"")
    assert head.headers["content-length"] == str(len(body))


def test_browsers_may_ask_with_their_protocol_version_and_nobody_may_write(protected: Callable[..., None]) -> None:
    protected("jwts")
    preflight, _ = got(PATHS[0], "OPTIONS", {"origin": "https://inspector.example.org"})
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-origin"] == preflight.headers["access-control-allow-headers"] == "*"
    refused, _ = got(PATHS[0], "POST")
    assert refused.status == 405
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.fault("G2")
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.test"},
        {"x-forwarded-host": "evil.test", "x-forwarded-proto": "http"},
        {"forwarded": "host=evil.test"},
        {"daphne-root-path": "/evil"},
    ],
    ids=str,
)
def test_G2_no_header_moves_the_resource(protected: Callable[..., None], headers: dict[str, str]) -> None:
    protected("jwts")
    for path in PATHS:
        client, body = got(path, headers=headers)
        assert json.loads(body)["resource"] == RESOURCE
        assert "evil" not in f"{body!r}{client.headers}"
    reply = ask(fields=headers)
    assert "evil" not in f"{reply.challenge}{reply.body}"
    assert reply.status == (403 if "host" in headers else 401)


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("https://mcp.example.com", WELL_KNOWN),
        ("https://example.com:8443/tools/v2/mcp", f"{WELL_KNOWN}/tools/v2/mcp"),
    ],
)
def test_the_path_of_the_resource_comes_after_the_well_known_one(
    protected: Callable[..., None], resource: str, path: str
) -> None:
    protected("jwts", OAUTH_RESOURCE=resource)
    assert json.loads(got(path)[1])["resource"] == resource
    origin = resource[: resource.index("/", 8)] if "/" in resource[8:] else resource
    assert ask().parameters["resource_metadata"] == f"{origin}{path}"


@pytest.mark.parametrize("path", [f"{WELL_KNOWN}/other", f"{WELL_KNOWN}/mcp/more", f"{WELL_KNOWN}x"])
def test_other_paths_are_the_sites(protected: Callable[..., None], path: str) -> None:
    protected("jwts")
    assert got(path)[0].status == 418


@pytest.mark.parametrize("missing", [{"OAUTH_RESOURCE": None}, {"OAUTH_ISSUERS": []}], ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_without_settings_there_is_no_metadata_and_the_site_may_have_its_own(
    protected: Callable[..., None], missing: dict[str, Any], path: str
) -> None:
    protected("jwts", AUTHENTICATOR=None, **missing)
    assert got(path)[0].status == 418
    assert ask().challenge == "Bearer"


def test_mounted_by_itself_it_knows_its_paths(configure: Any, protected: Callable[..., None]) -> None:
    async def status(path: str, root: str = "") -> int:
        transport = httpx2.ASGITransport(resource_metadata, root_path=root)
        async with httpx2.AsyncClient(transport=transport) as client:
            return int((await client.get(f"http://testserver{path}")).status_code)

    protected("jwts")
    assert asyncio.run(status(PATHS[0])) == 200
    assert asyncio.run(status(f"/root{PATHS[0]}", "/root")) == 200
    assert asyncio.run(status(f"/root{PATHS[0]}")) == 404
    configure(OAUTH_RESOURCE=None)
    assert asyncio.run(status(PATHS[0])) == 404


class Network(httpx2.AsyncBaseTransport):
    """Serve the endpoint under its public host, and everything else from its real address."""

    def __init__(self) -> None:
        self._endpoint = httpx2.ASGITransport(mcp_application(_no_site))
        self._others = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "mcp.example.com":
            request.headers["host"] = "testserver"
            return await self._endpoint.handle_async_request(request)
        return await self._others.handle_async_request(request)

    async def aclose(self) -> None:
        await self._others.aclose()


@pytest.mark.fault("G3")
@pytest.mark.parametrize("with_challenge", [True, False])
async def test_G3_the_official_client_discovers_the_authorization_server(
    protected: Callable[..., None], issuer: AuthorizationServer, with_challenge: bool
) -> None:
    protected("jwts", OAUTH_REQUIRED_SCOPES=["mcp"])
    async with httpx2.AsyncClient(transport=Network()) as client:
        refused = await client.post(RESOURCE, json=message("tools/list"))
        told = extract_resource_metadata_from_www_auth(refused)
        assert told == f"https://mcp.example.com{PATHS[0]}"
        first = build_protected_resource_metadata_discovery_urls(told if with_challenge else None, RESOURCE)[0]
        found = await handle_protected_resource_response(await client.get(first))
    assert found is not None
    assert (str(found.resource), [str(each) for each in found.authorization_servers], found.scopes_supported) == (
        RESOURCE,
        [issuer.issuer],
        ["mcp"],
    )


@pytest.mark.fault("G3")
async def test_G3_the_official_client_gets_from_the_challenge_to_a_token_and_is_served(
    protected: Callable[..., None], issuer: AuthorizationServer
) -> None:
    protected("jwts", OAUTH_REQUIRED_SCOPES=["files:read"])
    storage, landed = Storage(), asyncio.Queue[str]()

    async def visit(url: str) -> None:
        """Act as the user's browser."""
        async with httpx2.AsyncClient() as browser:
            await landed.put((await browser.get(url)).headers["location"])

    async def wait_for_code() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(await landed.get()).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0])

    metadata = OAuthClientMetadata.model_validate({"redirect_uris": ["http://127.0.0.1/back"]})
    provider = OAuthClientProvider(RESOURCE, metadata, storage, visit, wait_for_code)
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list", "Accept": "application/json"}
    async with httpx2.AsyncClient(transport=Network(), auth=provider) as client:
        answer = await client.post(RESOURCE, json=message("tools/list"), headers=headers)
    assert answer.status_code == 200
    assert "tools" in answer.json()["result"]
    assert storage.tokens.scope in (None, "files:read")
    assert issuer.asked == [
        "/.well-known/oauth-authorization-server",
        "/register",
        "/authorize",
        "/token",
        "/keys",
    ]
