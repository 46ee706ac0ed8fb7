"""A worker fetches no call that would wait for one of its slots, so a free worker runs it."""

import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from tests.execution import driver
from tests.execution.site import Site
from tests.support.site import own_engines
from tests.support.site.services import ServicesMissingError, missing

BUSY = {"code": "ctx.sleep(600)"}
ROUNDS = 5
WITHIN = 0.8
"""Seconds from a free slot to the next call in it. An event loop that nothing wakes sleeps for 1 s."""

pytestmark = [pytest.mark.acceptance, pytest.mark.fault("I8")]
POOLS = ["prefork", "threads", "async"]


@pytest.fixture(params=["folder", pytest.param("redis", marks=pytest.mark.engines)])
def site(request: pytest.FixtureRequest, tmp_path: Path, migrated: Path) -> Iterator[Site]:
    """A site on this broker. No call is published again while the test runs."""
    data = Path(copytree(migrated, tmp_path / "data"))
    environment = {"MCP_TEST_REPUBLISH_AFTER": "1000"}
    if request.param == "folder":
        with Site.opened(data, environment) as site:
            yield site
        return
    try:
        with own_engines.redis() as engine, Site.opened(data, {**environment, "MCPSITE_BROKER": engine.url}) as site:
            yield site
    except ServicesMissingError as error:
        missing(f"NO REDIS: {error}")


@pytest.mark.parametrize("pool", POOLS)
def test_I8_a_call_does_not_wait_for_a_busy_worker_while_another_has_a_free_slot(site: Site, pool: str) -> None:
    site.start_worker(concurrency=1, pool=pool)
    site.begin("python", BUSY)
    waiting = [site.submit("pid") for _ in range(3)]  # while no other worker can fetch them
    site.start_worker(concurrency=1, pool=pool)
    for request_id in waiting:
        assert site.ended(request_id)["status"] == "completed"


@pytest.mark.parametrize("pool", POOLS)
def test_I8_a_slot_that_becomes_free_takes_the_next_call_at_once(site: Site, pool: str) -> None:
    site.start_worker(concurrency=1, pool=pool)
    running = site.begin("python", BUSY)
    took = []
    for _ in range(ROUNDS):
        following = site.submit("python", BUSY)
        site.cancel(running)
        site.ended(running)
        freed_at = time.monotonic()
        site.ask(driver.running, following)
        took.append(time.monotonic() - freed_at)
        running = following
    assert max(took) < WITHIN, took
