"""Only the authenticator receives a caller's credential. No row, Celery message or log line contains it.

That holds for valid and invalid credentials, if the authenticator fails, and wherever a client sends them.
"""

import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from mcp_app.auth import tokens
from mcp_app.auth.authentication import HTTPConnection
from mcp_app.auth.tokens import IssuedToken
from mcp_app.models import Request, Token
from mcp_app.states import Status
from tests.support.asgi_client import Connection, call, message, post, run
from tests.support.thread_worker import ThreadWorker
from tests.support.worker import eventually, in_thread
from tests.transport import left_behind

pytestmark = [pytest.mark.usefixtures("_broker_folder"), pytest.mark.fault("G12")]

FOREIGN = "mcp_0123456789ab_" + "x" * 43
"""A well-formed token that this site did not issue."""


def quoting(connection: HTTPConnection) -> Any:
    raise RuntimeError(f"cannot reach the directory for {connection.headers['authorization']}")


def answering_with_it(connection: HTTPConnection) -> Any:
    return connection.headers["authorization"]


def slow(connection: HTTPConnection) -> Any:
    time.sleep(0.2)


@pytest.fixture
def _broker_folder(settings: Any) -> None:
    """Create the broker's folder. The first message creates it otherwise, and a rejected call sends none."""
    Path(settings.CELERY_BROKER_TRANSPORT_OPTIONS["folder"]).mkdir(exist_ok=True)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadWorker]:
    with ThreadWorker.at_work(monkeypatch) as worker:
        yield worker


@pytest.fixture
def authenticate(configure: Any) -> Callable[[str], None]:
    return lambda path: configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=path, AUTHENTICATION_TIMEOUT=0.1)


@pytest.fixture
def token(configure: Any) -> IssuedToken:
    """Returns a valid token of a user of the site."""
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR="mcp_app.auth.tokens.bearer")
    return tokens.issue(get_user_model().objects.create_user("ada"), "laptop", by="tests")


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def assert_nowhere(text: str, log: pytest.LogCaptureFixture, worker: ThreadWorker | None = None) -> None:
    secret = text[len(tokens.TOKEN_MARK) + 2 * tokens.PREFIX_BYTES + 2 :]
    assert len(secret) == 43
    assert left_behind.find_in_rows(secret) == left_behind.find_in_broker(secret) == set()
    written = "\n".join(log.handler.format(record) for record in log.records)
    assert secret not in written
    assert not any(secret in str(vars(record)) for record in log.records)
    assert worker is None or secret not in str(worker.messages)


def status(headers: dict[str, str], **options: Any) -> int:
    """Return the HTTP status of a small request."""
    found: list[int] = []

    async def scenario() -> None:
        client = await post(message("tools/list"), headers=headers, **options)
        await client.head()
        await client.body()
        found.append(client.status)

    run(scenario())
    return found[0]


def test_good_one(token: IssuedToken, worker: ThreadWorker, log: Any) -> None:
    async def scenario() -> None:
        client = await post(call(text="work"), headers=bearer(token.text))
        assert (await client.json())["result"]["content"][0]["text"] == "work"

    run(scenario())
    assert Request.objects.get().client_id == token.row.prefix
    assert len(worker.messages) == 1
    assert_nowhere(token.text, log, worker)


def test_one_whose_call_is_cancelled_and_one_that_is_revoked_meanwhile(token: IssuedToken, log: Any) -> None:
    async def scenario() -> None:
        client = await post(call(text="work"), headers=bearer(token.text))
        await eventually(lambda: Request.objects.filter(status=Status.QUEUED).exists())
        listening = await post(message("subscriptions/listen", notifications={}), headers=bearer(token.text))
        await listening.head()
        await in_thread(tokens.revoke, [token.row.prefix], by="tests")
        await client.leave()
        await listening.leave()

    run(scenario())
    assert Request.objects.get().status == Status.CANCELLED
    assert_nowhere(token.text, log)


@pytest.mark.parametrize("state", ["unknown", "misspelt", "revoked", "expired", "of nobody"])
def test_one_that_is_not_good(token: IssuedToken, log: Any, state: str) -> None:
    text = token.text
    if state == "unknown":
        text = FOREIGN
    elif state == "misspelt":
        text = text[:-1] + ("a" if text[-1] != "a" else "b")
    elif state == "revoked":
        tokens.revoke([token.row.prefix], by="tests")
    elif state == "expired":
        Token.objects.update(expires_at=timezone.now() - timedelta(days=1))
    else:
        get_user_model().objects.all().delete()
    assert status(bearer(text)) == 401
    assert_nowhere(text, log)


@pytest.mark.parametrize(
    ("authenticator", "expected"), [("quoting", 500), ("answering_with_it", 500), ("slow", 503), ("missing", 500)]
)
def test_an_authenticator_that_fails(authenticate: Any, log: Any, authenticator: str, expected: int) -> None:
    authenticate(f"{__name__}.{authenticator}")
    assert status(bearer(FOREIGN)) == expected
    assert any("authenticator" in record.getMessage() for record in log.records)
    assert_nowhere(FOREIGN, log)


@pytest.mark.parametrize(
    "field",
    [
        *("Last-Event-ID", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region"),
        *("Accept", "Content-Type", "Content-Length", "Cookie", "Host", "Origin", "Proxy-Authorization"),
        *("Traceparent", "Baggage", "User-Agent", "X-Api-Key", "X-Forwarded-For", "X-Forwarded-Host"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_one_in_a_field_where_it_does_not_belong(token: IssuedToken, log: Any, field: str, method: str) -> None:
    async def scenario() -> None:
        headers = {**bearer(token.text), field: token.text}
        if method == "POST":
            client = await post(call("regional", region="north"), headers={"Mcp-Param-Region": "north", **headers})
            if field in ("Host", "Origin", "Content-Type", "Mcp-Name", "Mcp-Method", "Mcp-Param-Region"):
                await client.head()
                assert client.status in (400, 403, 415)
        else:
            client = Connection(method, headers={"MCP-Protocol-Version": "2025-11-25", **headers})
            await client.send(b"")
            await client.head()
            assert client.status >= 400
        await client.leave()

    run(scenario())
    assert_nowhere(token.text, log)


def test_one_in_the_address(token: IssuedToken, log: Any) -> None:
    query = f"access_token={token.text}"
    assert status({}, query=query) == 401
    assert status(bearer(token.text), query=query) == 200
    assert_nowhere(token.text, log)
