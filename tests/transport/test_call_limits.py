"""A tool's limits for one caller (`rate`, `concurrency`), over every transport.

Calls are rejected as under load, with the time after which a retry succeeds.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import cache

from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.catalogue import NOT_COUNTED
from mcp_app.models import Request
from mcp_app.tools import tool
from tests.support import legacy_asgi_client, rows
from tests.support.asgi_client import Connection, call, post
from tests.support.legacy_asgi_client import Client
from tests.support.stdio_client import connect
from tests.support.worker import Worker, in_thread
from tests.transport.test_load import refused

pytestmark = pytest.mark.usefixtures("_limited")


DUMMY = {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}
NO_REDIS = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1"}
"""No server listens on this port."""
PEER = "192.0.2.1"
"""The address of the tests' clients."""
REST = range(3590, 3591)
"""The seconds that remain of the hour."""


@pytest.fixture
def _limited(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(catalogue, "time", SimpleNamespace(time=lambda: 7210.0))  # ten seconds past two

    @tool(rate="2/h")
    def rare() -> str:
        """May be called twice."""
        return ""

    @tool(concurrency=1)
    def alone() -> str:
        """One at a time."""
        return ""


async def served(worker: Worker, clients: list[Connection]) -> None:
    """Finish these calls, and check that each has a result."""
    for _ in clients:
        await worker.finish(await worker.claim())
    for client in clients:
        assert "result" in await client.json()


async def test_a_tool_that_is_called_too_often_is_refused_until_the_next_window(worker: Worker) -> None:
    for number in range(2):
        client = await post(call("rare", request_id=number))
        await worker.finish(await worker.claim())
        assert "result" in await client.json()
    await refused(await post(call("rare")), 429, within=REST)
    other = await post(call("rare"), peer="192.0.2.2")  # anonymous callers are distinguished by address
    await worker.finish(await worker.claim())
    assert "result" in await other.json()
    assert await in_thread(Request.objects.count) == 3


async def test_a_call_too_many_at_once_is_refused_until_one_has_ended(worker: Worker) -> None:
    first = await post(call("alone"))
    request_id = await worker.claim()
    await refused(await post(call("alone", request_id=2)), 429)
    await worker.finish(request_id)
    assert "result" in await first.json()
    second = await post(call("alone", request_id=3))
    await worker.finish(await worker.claim())
    assert "result" in await second.json()


async def test_what_tools_started_of_it_counts_as_well(worker: Worker) -> None:
    for name in ("alone", "work"):
        started = {"tool": name, "arguments": {}, "parent": uuid4(), "depth": 1}
        await in_thread(rows.queued, principal=replace(ANONYMOUS, network=PEER), **started)
    await refused(await post(call("alone")), 429)


async def test_older_clients_are_limited_as_well(worker: Worker) -> None:
    client = await Client.opened()
    first = await client.post(legacy_asgi_client.call("alone", 1))
    request_id = await worker.claim()
    answer = await (await client.post(legacy_asgi_client.call("alone", 2))).json()
    assert answer["error"]["code"] == 429
    await worker.finish(request_id)
    assert "result" in await first.json()


async def test_over_stdio_the_error_says_when_to_come_back(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call("alone", request_id=1))
        request_id = await worker.claim()
        await client.send(call("alone", request_id=2))
        answer = await client.receive()
        assert (answer["id"], answer["error"]["code"]) == (2, 429)
        assert answer["error"]["data"]["retryAfter"] >= 1
        await worker.finish(request_id)
        assert "result" in await client.receive()


async def test_the_site_s_own_limits_are_for_tools_that_say_nothing(worker: Worker, configure: Any) -> None:
    configure(TOOL_RATE="1/h")
    clients = [await post(call(name, request_id=name)) for name in ("rare", "rare", "work")]
    await served(worker, clients)
    await refused(await post(call("work")), 429, within=REST)


@pytest.mark.parametrize(
    "caches", [pytest.param(DUMMY, id="dummy"), pytest.param(NO_REDIS, id="no Redis", marks=pytest.mark.engines)]
)
async def test_what_cannot_be_counted_is_refused_and_the_rest_is_served(
    worker: Worker, settings: Any, caches: dict[str, str]
) -> None:
    settings.CACHES = {"default": caches}
    answer = await refused(await post(call("rare")), 503)
    assert answer["error"]["message"] == NOT_COUNTED.words
    await served(worker, [await post(call(name)) for name in ("work", "alone")])
