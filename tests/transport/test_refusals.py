"""Every rejection has its status and code, comes in time, and leaves no row."""

import errno
import json
from typing import Any

import pytest
from celery import current_app

from mcp_app.celery_adapter import broker
from mcp_app.models import Request
from mcp_app.states import Status
from mcp_app.transport import consumers
from mcp_app.transport.serving import failures
from tests.support.asgi_client import META, Connection, call, message, post
from tests.support.worker import Worker, in_thread

pytestmark = pytest.mark.usefixtures("_nothing_is_left_behind")


@pytest.fixture
def _nothing_is_left_behind(request: pytest.FixtureRequest) -> Any:
    yield
    if "leaves_row" not in request.fixturenames:
        assert not Request.objects.exists()


async def refused(client: Connection, status: int, code: int) -> dict[str, Any]:
    answer = await client.json()
    assert (client.status, answer["error"]["code"]) == (status, code)
    assert answer["error"]["message"].endswith(".")
    error: dict[str, Any] = answer
    return error


@pytest.mark.fault("I4")
def test_I4_a_request_that_finds_no_descriptor_is_refused_for_load() -> None:
    rejection = failures.explain(OSError(errno.EMFILE, "Too many open files", "/secret/path"), 1)
    assert (rejection.status, rejection.request_id, dict(rejection.headers)[b"retry-after"]) == (503, 1, b"1")
    assert "secret" not in rejection.message
    assert failures.explain(OSError(errno.ENOENT, "No such file"), 1).status == 500


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_endpoint_is_served_with_and_without_a_slash(path: str) -> None:
    client = Connection("GET", path)
    await client.send(b"")
    await refused(client, 405, 405)
    assert client.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/", "/mcpx", "/mcp/x", "/mcp\n"])
async def test_everything_else_is_the_sites(path: str) -> None:
    client = Connection("GET", path)
    await client.send(b"")
    await client.head()
    assert client.status == 418


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.test"}, 403, 403),
        ({"origin": "https://evil.test"}, 403, 403),
        ({"content-type": "text/plain"}, 415, 415),
        ({"content-length": "99999999"}, 413, 413),
    ],
)
async def test_refused_before_the_body_is_read(headers: dict[str, str], status: int, code: int) -> None:
    client = Connection(headers=headers)
    await client.send(b"{", more=True)
    await refused(client, status, code)


@pytest.mark.fault("F1")
async def test_body_is_counted_whatever_its_length_header_says(configure) -> None:
    configure(MAX_BODY_BYTES=100)
    client = Connection(headers={"content-length": "10"})
    await client.send(b"x" * 60, more=True)
    await client.send(b"x" * 60, more=True)
    await refused(client, 413, 413)


@pytest.mark.fault("F10")
async def test_body_that_does_not_come_is_given_up(configure) -> None:
    configure(BODY_TIMEOUT=0.02)
    client = Connection()
    await client.send(b"{", more=True)
    await refused(client, 408, 408)


@pytest.mark.fault("G3")
async def test_nobody_is_anonymous_where_the_settings_do_not_say_so(configure) -> None:
    configure(ALLOW_ANONYMOUS=False)
    client = await post(call())
    await refused(client, 401, 401)
    assert client.headers["www-authenticate"] == "Bearer"


@pytest.mark.fault("G3")
async def test_while_a_site_is_developed_its_own_machine_alone_is_anonymous(configure, settings) -> None:
    settings.DEBUG = True
    configure(ALLOW_ANONYMOUS=None)
    client = await post(message("tools/list"), peer="127.0.0.1")
    assert "result" in await client.json()
    refusal = await refused(await post(message("tools/list"), peer="192.0.2.1"), 401, 401)
    assert "own machine" in str(refusal)


async def test_large_body_is_read_like_a_small_one() -> None:
    client = await post(message("tools/list", padding="x" * (consumers.SMALL_BODY_BYTES + 1)))
    assert "result" in await client.json()


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (call(), {"Mcp-Method": "tools/list"}, 400, -32020),
        (call(), {"Mcp-Name": "other"}, 400, -32020),
        (call(), {"MCP-Protocol-Version": ""}, 400, -32020),
        (call(), {"Accept": "text/html"}, 406, 406),
        (call(meta={META + "clientCapabilities": 1}), {}, 400, -32602),
        (call("nothing"), {}, 200, -32602),
        (call("inquisitive"), {}, 400, -32021),
        (call("regional", region="eu"), {}, 400, -32020),
        (call("regional", region="eu"), {"Mcp-Param-Region": "us"}, 400, -32020),
        (message("tools/call", name="work", arguments=[]), {}, 200, -32602),
        (message("tools/list", cursor="forged"), {}, 200, -32602),
        (message("tools/list", cursor=""), {}, 200, -32602),
        (message("subscriptions/listen"), {}, 200, -32602),
        (message("subscriptions/listen", notifications={}), {"Accept": "application/json"}, 406, 406),
        (message("prompts/list"), {}, 404, -32601),
        (message("ping"), {}, 404, -32601),
        (message("initialize"), {}, 404, -32601),
    ],
)
async def test_refused_with_the_specs_status_and_code(
    body: dict[str, Any], headers: dict[str, str], status: int, code: int
) -> None:
    error = await refused(await post(body, headers=headers), status, code)
    assert error["id"] == body["id"]


async def test_missing_capability_is_named() -> None:
    error = await refused(await post(call("inquisitive")), 400, -32021)
    assert error["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}


async def test_bad_arguments_are_an_error_that_a_model_can_act_on(worker: Worker) -> None:
    client = await post(call(text=5))
    result = (await client.json())["result"]
    assert client.status == 200
    assert result["isError"] is True
    assert "text" in result["content"][0]["text"]
    assert result["resultType"] == "complete"
    assert worker.idle()


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/anything"])
async def test_notification_is_accepted_and_has_no_effect(method: str) -> None:
    client = Connection()
    await client.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}).encode())
    await client.head()
    assert client.status == 202
    assert await client.body() == b""


@pytest.fixture
def leaves_row() -> None:
    """Marks the rejections that come after the row was stored."""


async def test_principal_with_too_many_open_calls_is_asked_to_wait(worker: Worker, configure, leaves_row: None) -> None:
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=1)
    first = await post(call())
    request_id = await worker.claim()
    second = await post(call())
    await refused(second, 429, 429)
    assert second.headers["retry-after"] == "1"
    await worker.finish(request_id)
    await first.json()
    assert await in_thread(Request.objects.count) == 1
    third = await post(call())
    await worker.finish(await worker.claim())
    assert "result" in await third.json()


@pytest.fixture
def _broker_is_away() -> Any:
    """Use a port that refuses connections as the broker."""
    url = current_app.conf.broker_url
    _use_broker("amqp://127.0.0.1:1//")
    yield
    _use_broker(url)


def _use_broker(url: str) -> None:
    current_app.conf.broker_url = url
    current_app._pool = None
    current_app.amqp._producer_pool = None
    broker._connection.cache_clear()


@pytest.mark.fault("C7")
@pytest.mark.usefixtures("_broker_is_away", "leaves_row")
async def test_broker_that_is_away_is_an_error_and_closes_the_row() -> None:
    client = await post(call())
    answer = await client.json()
    assert (client.status, answer["error"]["code"]) == (503, 503)
    assert client.headers["retry-after"] == "1"
    assert answer["error"]["data"] == {"retryAfter": 1}
    stored = await in_thread(Request.objects.get)
    assert (stored.status, stored.error["cause"]) == (Status.FAILED, "broker")


async def test_failure_inside_the_server_is_told_without_details(monkeypatch, caplog) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("secret /path")

    monkeypatch.setattr("mcp_app.catalogue.catalogue.page", broken)
    error = await refused(await post(message("tools/list")), 500, -32603)
    assert "secret" not in error["error"]["message"]
    assert "secret" in caplog.text


@pytest.mark.fault("G1")
@pytest.mark.parametrize(("debug", "status"), [(True, 200), (False, 403)])
@pytest.mark.parametrize("origin", ["http://localhost:5173", "http://127.0.0.1:6274", "http://[::1]:80"])
async def test_loopback_origins_pass_where_djangos_debug_is_on(
    settings: Any, debug: bool, status: int, origin: str
) -> None:
    settings.DEBUG = debug
    client = await post(message("tools/list"), headers={"Origin": origin})
    await client.json()
    assert client.status == status
    other = await post(message("tools/list"), headers={"Origin": "https://localhost.example.com"})
    await refused(other, 403, 403)
