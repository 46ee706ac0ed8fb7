"""CORS: only pages of allowed origins may call and read responses, including rejections."""

from typing import Any

import pytest

from tests.docs.pages import executed, snippet
from tests.support.asgi_client import Connection, call, message, post
from tests.support.legacy_asgi_client import Client
from tests.support.worker import Worker

pytestmark = pytest.mark.usefixtures("_allowed")


PAGE = "https://playground.example.com"
FIELDS = {"origin": PAGE}
EXPOSED = "Mcp-Session-Id, WWW-Authenticate, MCP-Protocol-Version"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,mcp-param-region,mcp-protocol-version",
}


def authenticator(connection: Any) -> None:
    return None


@pytest.fixture
def _allowed(configure: Any) -> None:
    configure(**executed(snippet("how-to/access.md#clients-in-a-browser"), MCP={})["MCP"])


def assert_readable(client: Connection, status: int) -> None:
    """Check that the page of the origin can read this response, and no other page can."""
    assert client.status == status
    assert client.headers["access-control-allow-origin"] == PAGE
    assert client.headers["access-control-expose-headers"] == EXPOSED
    assert client.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in client.headers


async def preflight(path: str = "/mcp", method: str = "OPTIONS", **fields: str) -> Connection:
    named = {**FIELDS, **PREFLIGHT, **{name.replace("_", "-"): value for name, value in fields.items()}}
    client = Connection(method, path, {name: value for name, value in named.items() if value})
    await client.send(b"")
    await client.head()
    return client


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_a_page_that_asks_may_send_what_it_asks_for(path: str) -> None:
    client = await preflight(path)
    assert_readable(client, 200)
    assert client.headers["access-control-allow-methods"] == "POST, GET, DELETE"
    assert client.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
    assert await client.body() == b""


async def test_a_page_may_ask_though_nobody_is_let_in_and_the_rate_is_used_up(configure: Any) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.authenticator", REQUEST_BURST=1, REQUEST_RATE=0.001)
    for _ in range(3):
        assert_readable(await preflight(), 200)


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "https://evil.example.com"},
        {"origin": f"{PAGE}:8443"},
        {"origin": PAGE.replace("https", "http")},
        {"origin": "null"},
        {"origin": "http://localhost:6274"},
        {"host": "evil.example.com"},
    ],
)
async def test_a_page_of_another_origin_or_host_may_not(fields: dict[str, str]) -> None:
    for client in (await preflight(**fields), await post(message("server/discover"), headers={**FIELDS, **fields})):
        await client.body() if client.status else await client.head()
        assert client.status == 403
        assert "access-control-allow-methods" not in client.headers
        allowed = client.headers.get("access-control-allow-origin")
        assert allowed == (PAGE if "host" in fields else None)
        assert client.headers["vary"] == "Origin"


async def test_what_is_no_preflight_is_refused_as_before() -> None:
    for fields in ({"access_control_request_method": ""}, {"origin": ""}):
        client = await preflight(**fields)
        assert (client.status, client.headers["allow"]) == (405, "POST")
    client = await preflight(access_control_request_headers='x"\r\nset-cookie: a')
    assert (client.status, "access-control-allow-headers" in client.headers) == (200, False)


async def test_pages_of_this_machine_may_call_while_debugging(settings: Any) -> None:
    settings.DEBUG = True
    client = await preflight(origin="http://localhost:6274")
    assert client.headers["access-control-allow-origin"] == "http://localhost:6274"


async def test_each_endpoint_has_its_own_origins(configure: Any) -> None:
    configure(ENDPOINTS={"a": {"PATH": "/mcp", "ALLOWED_ORIGINS": [PAGE]}, "b": {"PATH": "/b", "ALLOWED_ORIGINS": []}})
    assert_readable(await preflight("/mcp"), 200)
    assert (await preflight("/b")).status == 403


async def test_results_and_event_streams_can_be_read(worker: Worker, configure: Any) -> None:
    configure(SSE_AFTER=0.05)
    client = await post(message("server/discover"), headers=FIELDS)
    await client.head()
    assert_readable(client, 200)
    client = await post(call(), headers=FIELDS)
    request_id = await worker.claim()
    await client.head()
    assert client.headers["content-type"] == "text/event-stream"
    assert_readable(client, 200)
    await worker.finish(request_id)
    await client.body()
    client = await post(message("subscriptions/listen", notifications={"toolsListChanged": True}), headers=FIELDS)
    await client.head()
    assert_readable(client, 200)
    await client.leave()


@pytest.mark.parametrize(
    ("settings_", "fields", "body", "status"),
    [
        ({"ALLOW_ANONYMOUS": False, "AUTHENTICATOR": f"{__name__}.authenticator"}, {}, None, 401),
        ({}, {"content-type": "text/plain"}, None, 415),
        ({}, {"content-length": "99999999"}, None, 413),
        ({}, {"mcp-method": "tools/list"}, None, 400),
        ({"REQUEST_BURST": 1, "REQUEST_RATE": 0.001}, {}, message("tools/list"), 429),
        ({"MAX_OPEN_REQUESTS": 0}, {}, message("tools/list"), 503),
    ],
)
async def test_refusals_can_be_read(
    configure: Any, settings_: dict[str, Any], fields: dict[str, str], body: Any, status: int
) -> None:
    configure(**settings_)
    for _ in range(2):  # the first request uses up the rate
        client = await post(message("server/discover") if body is None else body, headers={**FIELDS, **fields})
        await client.head()
    assert_readable(client, status)
    if status == 401:
        assert client.headers["www-authenticate"].startswith("Bearer")


async def test_older_clients_can_read_their_session_and_all_that_it_answers() -> None:
    client = Client()
    begun = await client.post(
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _introduction(client)},
        {**FIELDS, "MCP-Protocol-Version": ""},
    )
    assert_readable(begun, 200)
    client.session = begun.headers["mcp-session-id"]
    accepted = await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, FIELDS)
    assert_readable(accepted, 202)
    stream = await client.get(headers=FIELDS)
    assert_readable(stream, 200)
    await stream.leave()
    deletion = Connection("DELETE", headers={**client._fields({}), **FIELDS})
    await deletion.send(b"")
    await deletion.head()
    assert_readable(deletion, 200)
    assert_readable(await client.get(headers=FIELDS), 404)


def _introduction(client: Client) -> dict[str, Any]:
    return {
        "protocolVersion": client.version,
        "capabilities": {},
        "clientInfo": {"name": "page", "version": "1"},
    }
