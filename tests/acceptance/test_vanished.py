"""The calls of a client whose machine vanished are ended, although no FIN or RST arrives."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance import nginx
from tests.acceptance.network import SERVERS_ADDRESS, Network, NotPermittedError, network
from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_cancelled, assert_stopped
from tests.support.site import wire
from tests.support.site.inspector import Row
from tests.support.site.layouts import closing
from tests.support.site.services import missing
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import BOTH, JSON, Connection
from tests.support.waiting import eventually

pytestmark = [pytest.mark.engines, pytest.mark.fault("A14")]

SETTINGS: Final = "tests.acceptance.signing.settings"
"""A site with users, because anonymous callers are served only on loopback."""
VANISHED_AFTER: Final = 3
RETRIES: Final = 3
"""`tcp_retries2` of the servers' host: about 3 s without acknowledgement. The default, 15, is a quarter of an hour."""
BOUND: Final = 30.0


@pytest.fixture
def wired() -> Iterator[Network]:
    try:
        with network(tcp_retries2=RETRIES) as made:
            yield made
    except NotPermittedError as error:
        pytest.skip(f"NO PACKETS DROPPED, a vanished client was not tested: {error}")


@pytest.fixture
def site(wired: Network, tmp_path: Path) -> Iterator[Stack]:
    environment = {"MCP_TEST_VANISHED_AFTER": str(VANISHED_AFTER)}
    with closing(Stack(tmp_path / "site", environment, workers=1, settings=SETTINGS, inside=wired.inside)) as site:
        site.data.mkdir()
        site.serve_from(site.start_embedded(f"--host={SERVERS_ADDRESS}", "--concurrency=6"))
        site.ask("make user", name="ada", password="a long password", permissions=[])
        yield site


@pytest.fixture
def uvicorn(site: Stack) -> Iterator[Server]:
    server = site.start_uvicorn("--host=0.0.0.0")
    yield server
    server.stop()


@pytest.fixture
def front(wired: Network, site: Stack, uvicorn: Server, tmp_path: Path) -> Iterator[Server]:
    listen = f"{SERVERS_ADDRESS}:8080 so_keepalive=1s:1s:2"
    try:
        with nginx.front(
            tmp_path / "nginx", [uvicorn, uvicorn], site.environment, *wired.inside, listen=listen
        ) as front:
            yield front
    except nginx.NginxMissingError as error:
        missing(f"NO nginx, what it is to do was not tested: {error}")


def test_A14_calls_of_a_client_that_vanished_without_a_word_are_ended(
    wired: Network,
    site: Stack,
    uvicorn: Server,
    front: Server,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    ways = {
        "mcp serve, JSON": (site.servers[0].port, JSON),
        "mcp serve, stream": (site.servers[0].port, BOTH),
        "uvicorn, stream": (uvicorn.port, BOTH),
        "nginx, JSON": (8080, JSON),
        "nginx, stream": (8080, BOTH),
    }
    calls = {way: commence(wired, site, port, accept, tmp_path / way) for way, (port, accept) in ways.items()}
    vanished_at = time.time()
    wired.vanish()
    for way, call in calls.items():
        row = site.ended(call, BOUND)
        assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="ada")
        assert_stopped(row, tmp_path / way)
        record_property(way, _seconds(row, vanished_at))
        print(f"{way}: {_seconds(row, vanished_at):.1f} s")  # noqa: T201
        call.close()


def commence(wired: Network, site: Stack, port: int, accept: str, steps: Path) -> Connection:
    call = wired.connect(port)
    body = wire.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    call.post(body, accept=accept, headers={"Host": "localhost", "Authorization": "Bearer ada"})
    site.running(call)
    eventually(steps.exists, "it takes a step")
    assert accept == JSON or call.is_stream
    return call


def _seconds(row: Row, since: float) -> float:
    assert row.finished_at is not None
    return row.finished_at - since
