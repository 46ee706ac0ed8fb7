"""A worker that is alive but takes no message: an alarm is logged, clients get a response, and no call runs later."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.acceptance.test_endings import accepted, error_text
from tests.support.site.layouts import apart
from tests.support.site.stack import CONCURRENCY, MANAGE, Stack
from tests.support.site.wire import text
from tests.support.sqlite_locks import go_on, stand_still
from tests.support.waiting import eventually

SHORT = {"MCP_TEST_MAX_QUEUE_SECONDS": "5", "MCP_TEST_QUEUE_ALARM": "1"}
AT_ONCE = 2.0
"""Seconds: less than any deadline here, and many times longer than closing a row takes."""


@contextmanager
def stopped(site: Stack) -> Iterator[None]:
    """Stop the worker's main process by SIGSTOP. It takes no message, reads no command and writes no heartbeat."""
    [worker] = site.worker_programs
    stand_still(site.data / "mcp.sqlite3", worker.pid)
    try:
        yield
    finally:
        go_on(worker.pid)


@contextmanager
def elsewhere(site: Stack) -> Iterator[None]:
    """Replace the only worker by one that consumes another queue."""
    [worker] = site.worker_programs
    assert worker.stop() == 0
    site.worker_programs.clear()
    other = site.start(*MANAGE, "mcp", "worker", "--settings", site.settings, CONCURRENCY, "--queues=everything-else")
    eventually(lambda: "mcp worker" in " ".join(other.command) and not other.ended, "it starts")
    try:
        yield
    finally:
        assert other.stop() in (0, -signal.SIGTERM)
        site.start_worker()
        site.restore_workers()


@pytest.mark.fault("C6")
@pytest.mark.parametrize("state", [stopped, elsewhere])
def test_C6_what_no_worker_takes_raises_an_alarm_is_cancelled_at_once_or_ends_at_its_deadline(
    engines: dict[str, str], tmp_path: Path, state: Callable[[Stack], AbstractContextManager[None]]
) -> None:
    with apart(tmp_path, {**engines, **SHORT}) as site:
        [server] = site.servers
        count = tmp_path / "count"
        with state(site):
            waiting, cancelled = (site.call("count", path=str(count)) for _ in range(2))
            site.row(waiting)
            assert site.ask("cancel", request_id=site.row(cancelled).id, reason="nobody takes it") == "accepted"
            row = site.ended(cancelled, AT_ONCE)
            assert (row.status, row.cancel_cause, row.story) == (
                "cancelled",
                "admin",
                ["queued", "cancel", "cancelled"],
            )
            assert accepted(row).latency_ms == 0
            told = error_text(cancelled)
            assert all(fact in told for fact in ("cancelled", "administrator", "nobody takes it"))
            assert server.program.says(r"queue mcp\b.* \d+ s .*waiting: 1\b")
            assert "no worker" in error_text(waiting)
            row = site.ended(waiting)
            assert (row.status, row.cancel_cause) == ("cancelled", "deadline")
        assert text(site.call("echo", text="again").result()) == "again"
        assert not count.exists()
