"""A worker rejects each unreadable message once and logs it. Its request ends, and the next call runs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any, Final

import pytest
from kombu import Connection

from mcp_app.embedded.folder import Folder
from tests.execution import driver, malformed
from tests.execution.malformed import Envelope
from tests.execution.site import Site, Worker, eventually
from tests.support.site import own_engines
from tests.support.site.services import ServicesMissingError, missing

pytestmark = [pytest.mark.acceptance, pytest.mark.fault("I12"), pytest.mark.timeout(300)]

SEEDS: Final = (30, 2027)
AT_RANDOM: Final = 120
RAW: Final = (b"", b"hello", b"\xff\xfe", b"5", b"null", b"[]", b"{}", b'{"headers": 5}', b'{"body": ', b"[" * 100_000)
"""Data in a queue of Redis or a folder that is not a message at all."""

Put = Callable[[Envelope], None]


@contextmanager
def _engine(kind: str) -> Iterator[str | None]:
    """Return the URL of a broker of the test's own, or `None` for the embedded one."""
    if kind == "folder":
        yield None
        return
    try:
        with {"redis": own_engines.redis, "rabbitmq": own_engines.rabbitmq}[kind]() as engine:
            yield engine.url
    except ServicesMissingError as error:
        missing(f"NO {kind}: {error}")


@pytest.fixture(
    scope="module",
    params=[
        "folder",
        pytest.param("redis", marks=pytest.mark.engines),
        pytest.param("rabbitmq", marks=[pytest.mark.engines, pytest.mark.nightly]),
    ],
)
def url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    with _engine(request.param) as url:
        yield url


@pytest.fixture(scope="module")
def site(url: str | None, tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Site]:
    data = Path(copytree(migrated, tmp_path_factory.mktemp("malformed") / "data"))
    # Nothing is published again while the test runs, so that a row without a message becomes visible.
    environment = {"MCP_TEST_REPUBLISH_AFTER": "1000"} | ({"MCPSITE_BROKER": url} if url else {})
    with Site.opened(data, environment) as site:
        yield site


@pytest.fixture(scope="module")
def worker(site: Site) -> Worker:
    """One worker for all tests on a broker, which must survive all of them."""
    return site.start_worker(concurrency=2)


@pytest.fixture
def put(url: str | None, site: Site) -> Iterator[Put]:
    """Put a message into the tools' queue without a change."""
    with _writer(url, site) as write:
        yield write


@contextmanager
def _writer(url: str | None, site: Site) -> Iterator[Put]:
    if url is None:
        folder = Folder(str(site.data / "broker"))
        yield lambda made: folder.put("mcp", malformed.text(made).encode(), create=True)
    elif url.startswith("redis"):
        import redis

        with redis.Redis.from_url(url) as store:
            yield lambda made: store.lpush("mcp", malformed.text(made))
    else:
        with Connection(url) as connection, connection.Producer(auto_declare=False) as producer:
            yield lambda made: _publish(producer, made)


def _publish(producer: Any, made: Envelope) -> None:
    """Publish by AMQP, which stores only some values. The broker builds the rest of the envelope."""
    headers = made.get("headers")
    body = made.get("body")
    try:
        producer.publish(
            json.dumps(body).encode(),
            routing_key="mcp",
            headers=headers if isinstance(headers, dict) else {},
            content_type=str(made.get("content-type") or "application/json"),
            content_encoding=str(made.get("content-encoding") or "utf-8")[:100],
            correlation_id="x",
        )
    except Exception:  # no AMQP table can hold it
        producer.revive(producer.connection.channel())


def still_serves(site: Site, worker: Worker) -> None:
    """Assert that both slots of the worker take a call at the same time."""
    gate = site.data / "gate"
    gate.unlink(missing_ok=True)
    code = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)"
    calls = [site.submit("python", {"code": code}) for _ in range(2)]
    running = dict.fromkeys(calls, "running")
    eventually(lambda: {call: site.ask(driver.row, call)["status"] for call in calls} == running, "two calls at once")
    gate.touch()
    assert [site.ended(call)["status"] for call in calls] == ["completed"] * 2
    assert worker.process.poll() is None


def test_a_message_that_cannot_be_read_is_rejected_once_and_its_request_fails(
    site: Site, worker: Worker, put: Put
) -> None:
    sent = {}
    for what in dict(malformed.unreadable("x", "mcp")):
        request_id = site.ask(driver.store, "echo", {"text": what})
        sent[what] = request_id
        put(dict(malformed.unreadable(request_id, "mcp"))[what])
    ended = {what: site.ended(request_id) for what, request_id in sent.items()}
    assert {what: row["status"] for what, row in ended.items()} == dict.fromkeys(sent, "failed")
    assert {row["error"]["cause"] for row in ended.values()} == {"message"}
    still_serves(site, worker)
    log = worker.log.read_text()
    assert {
        what: log.count(f"message for request {request_id} cannot be read") for what, request_id in sent.items()
    } == (dict.fromkeys(sent, 1))


def test_options_that_no_message_of_ours_has_are_ignored(site: Site, worker: Worker, put: Put) -> None:
    sent = {}
    for what in dict(malformed.harmless("x", "mcp")):
        sent[what] = site.ask(driver.store, "echo", {"text": what})
        put(dict(malformed.harmless(sent[what], "mcp"))[what])
    ended = {what: site.ended(request_id)["status"] for what, request_id in sent.items()}
    assert ended == dict.fromkeys(sent, "completed")
    still_serves(site, worker)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_outlives_messages_made_at_random(site: Site, worker: Worker, put: Put, seed: int) -> None:
    children = worker.children()
    for made in (*malformed.nameless("mcp"), *malformed.at_random(seed, AT_RANDOM, "mcp")):
        put(made)
    still_serves(site, worker)
    assert worker.children() == children
    assert site.ask(driver.workers)[-1][1] == worker.pid


def test_a_worker_outlives_what_is_no_message(site: Site, worker: Worker, url: str | None) -> None:
    if url is None:
        folder = Folder(str(site.data / "broker"))
        for raw in RAW:
            folder.put("mcp", raw, create=True)
    elif url.startswith("redis"):
        import redis

        with redis.Redis.from_url(url) as store:
            for raw in RAW:
                store.lpush("mcp", raw)
            for raw in RAW:
                store.publish("/0.celery.pidbox", raw)
    else:
        pytest.skip("what RabbitMQ takes is a message")
    still_serves(site, worker)
