"""Health probes of real servers without a database: they are live and not ready, and answer within the time limit."""

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.site import layouts, own_engines
from tests.support.site.own_engines import Engine
from tests.support.site.services import ServicesMissingError, missing
from tests.support.site.stack import Server, Stack
from tests.support.waiting import eventually

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]

BACK_IN = 30.0
ANSWERED_IN = 10.0
"""Seconds on a busy machine. The promised time, `READY_TIMEOUT` of 2 s, is only measured."""
WELL = {"serving": "ok", "database": "ok", "migrations": "ok", "broker": "ok"}


@pytest.fixture(scope="module")
def database() -> Iterator[Engine]:
    try:
        with own_engines.postgresql() as engine:
            yield engine
    except ServicesMissingError as error:
        missing(f"NO POSTGRESQL OF ITS OWN, no probe was made without a database: {error}")


@pytest.fixture(scope="module")
def running(database: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """`mcp serve` and uvicorn, on the embedded broker."""
    data = tmp_path_factory.mktemp("health")
    with layouts.apart(data, {"MCPSITE_DATABASE": database.url}, workers=0) as stack:
        stack.serve_from(*stack.servers, stack.start_uvicorn())
        yield stack


@pytest.fixture
def stack(running: Stack, database: Engine) -> Iterator[Stack]:
    """The same site, with servers that are ready. The database serves again afterwards."""
    for server in running.servers:
        eventually(lambda server=server: probe(server, "ready")[0] == 200, "it is ready", BACK_IN)
    yield running
    if database.ended:
        database.start()
    database.thaw()


def probe(server: Server, name: str, method: str = "GET") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWERED_IN)
    try:
        connection.request(method, f"/health/{name}/")
        response = connection.getresponse()
        body = response.read()
        assert "no-store" in (response.getheader("Cache-Control") or "")
        return response.status, json.loads(body) if body else None
    finally:
        connection.close()


def test_while_the_database_answers_nothing_servers_live_and_are_not_ready(
    stack: Stack, database: Engine, measured: dict[str, list[float]]
) -> None:
    for server in stack.servers:
        assert probe(server, "live") == (200, {"live": True})
        assert probe(server, "live", "HEAD") == (200, None)
        assert probe(server, "ready") == (200, {"ready": True, "checks": WELL})
        assert probe(server, "ready", "HEAD") == (200, None)
    database.freeze()
    for server in stack.servers:
        # A result is cached for a second.
        eventually(lambda server=server: probe(server, "ready")[0] == 503, "it is not ready")
        began_at = time.monotonic()
        answer = probe(server, "ready")
        measured.setdefault("ready without a database, which is waited for 2 s", []).append(time.monotonic() - began_at)
        assert answer == (503, {"ready": False, "checks": {"serving": "ok", "database": "failed", "broker": "ok"}})
        assert probe(server, "live") == (200, {"live": True})
    database.thaw()
    for server in stack.servers:
        eventually(lambda server=server: probe(server, "ready")[0] == 200, "it is ready again", BACK_IN)


def test_a_database_that_is_gone_is_told_at_once_and_its_return_as_well(stack: Stack, database: Engine) -> None:
    database.stop()
    for server in stack.servers:
        eventually(lambda server=server: probe(server, "ready")[0] == 503, "it is not ready")
        assert probe(server, "live")[0] == 200
    database.start()
    for server in stack.servers:
        eventually(lambda server=server: probe(server, "ready")[0] == 200, "it is ready again", BACK_IN)
        told = server.program.output()
        assert told.count("not ready: database: ") == told.count("ready again: database") > 0
