"""Celery's own command: the workers that take tools, and the end of a worker that cannot run them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.execution import driver
from tests.execution.site import ROOT, Site, eventually

pytestmark = pytest.mark.acceptance

SOLO = "--pool=solo"


def celery(site: Site, *options: str, **environment: str) -> "subprocess.Popen[bytes]":
    """Run `celery -A mcpsite worker` with these options. Its log is `celery.log`."""
    command = [sys.executable, "-m", "celery", "-A", "mcpsite", "worker", "--loglevel=WARNING", *options]
    with log(site).open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**site.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def log(site: Site) -> Path:
    return site.data / "celery.log"


def test_a_worker_without_named_queues_takes_tools(site: Site) -> None:
    worker = celery(site, "--concurrency=2")
    try:
        assert site.call("echo", {"text": "x"})["status"] == "completed"
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@pytest.mark.parametrize("options", [["-Q", "celery"], ["-X", "mcp"]])
def test_a_worker_that_names_other_queues_takes_none(site: Site, options: list[str]) -> None:
    worker = celery(site, "--concurrency=1", *options)
    try:
        assert eventually(lambda: consumed(site), "the worker's start") == {"celery"}
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def consumed(site: Site) -> set[str]:
    return set(site.ask(driver.consumed_queues))


@pytest.mark.fault("I7")
def test_I7_a_pool_in_which_no_tool_runs_ends_a_worker_that_names_their_queue(site: Site) -> None:
    worker = celery(site, SOLO, "-Q", "mcp")
    assert worker.wait(30) == os.EX_USAGE, log(site).read_text()
    assert re.search(r"tools .* pool, .*exits", log(site).read_text())


@pytest.mark.fault("I7")
def test_I7_such_a_worker_that_names_no_queue_serves_the_site_without_tools(site: Site) -> None:
    worker = celery(site, SOLO)
    try:
        eventually(lambda: "runs no tools" in log(site).read_text(), "the warning")
        assert consumed(site) == {"celery"}
        assert "mcp worker" in log(site).read_text()
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
