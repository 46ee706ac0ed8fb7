"""The shutdown of a worker for every signal that Celery handles: calls finish or stop, and no process remains."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.execution import driver
from tests.execution.conftest import Opened
from tests.execution.site import Site, Worker, begin_code, eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.fault("C5")]

DEAF = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})\ntime.sleep(60)"
SLEEP = "time.sleep(60)"
SHORT = "time.sleep(0.4)"
POLITE = "while not ctx.cancelled: time.sleep(0.01)\nanswer = 'so far'"
IGNORES = "time.sleep(2.5)"
SHUTDOWN = ("cancelled", "shutdown")


SETUPS = [
    pytest.param(("embedded", "mcp"), id="embedded-mcp"),
    pytest.param(("engines", "celery"), id="engines-celery", marks=pytest.mark.engines),
    pytest.param(("embedded", "celery"), id="embedded-celery", marks=pytest.mark.nightly),
    pytest.param(("engines", "mcp"), id="engines-mcp", marks=[pytest.mark.engines, pytest.mark.nightly]),
]
"""The engines, and the command that starts the worker."""


@dataclass(frozen=True)
class Setup:
    """A site without workers, and the command that starts one."""

    site: Site
    kind: str

    def start(self, **environment: str) -> Worker:
        begin_worker = self.site.start_worker if self.kind == "mcp" else self.site.start_celery_worker
        return begin_worker(concurrency=5, **environment)


@pytest.fixture(params=SETUPS)
def setup(request: pytest.FixtureRequest, tmp_path: Path, opened: Opened) -> Iterator[Setup]:
    engines, kind = request.param
    with opened(engines, tmp_path) as site:
        yield Setup(site, kind)


def begin(site: Site, code: str, **changes: object) -> str:
    """Begin a call and wait until it is in the middle of its code."""
    return begin_code(site, f'open(READY, "w").close()\n{code}', **changes)


def end(site: Site, request_id: str) -> tuple[str, str]:
    row = site.ended(request_id)
    return row["status"], row["cancel_cause"]


def assert_settled(site: Site, *request_ids: str) -> None:
    """Assert that each call has one accepted, settled attempt and ran once."""
    for request_id in request_ids:
        [attempt] = site.ask(driver.attempts, request_id)
        assert (attempt["outcome"], attempt["actor"], bool(attempt["settled_at"])) == ("accepted", "system", True)
        told = [data["status"] for kind, data in site.ask(driver.events, request_id) if kind == "transition"]
        assert told == ["queued", "running", "cancelled"]


def assert_gone(site: Site, worker: Worker) -> None:
    """Assert that the worker has ended by itself, logged it, and left no process."""
    assert worker.process.wait(30) in (0, 1), worker.log.read_text()
    eventually(lambda: not site.processes(), "no process")
    assert site.ask(driver.workers) == []


def test_C5_a_warm_shutdown_gives_calls_their_time_and_then_stops_them(setup: Setup) -> None:
    site = setup.site
    worker = setup.start()
    short, long, polite = begin(site, SHORT), begin(site, SLEEP), begin(site, POLITE, cooperative_grace=5.0)
    spared = begin(site, IGNORES, cancel_policy="cooperative")
    deaf = begin(site, DEAF, cancel_policy="interrupt")
    worker.process.terminate()
    assert end(site, short) == ("completed", "")
    assert [end(site, each) for each in (long, polite, deaf)] == [SHUTDOWN] * 3
    assert site.ended(deaf)["stage"] == "kill"
    assert site.ended(polite)["partial_result"]["content"][0]["text"] == "so far"
    assert end(site, spared) == ("completed", "shutdown")
    assert_settled(site, long, polite, deaf)
    assert_gone(site, worker)


@pytest.mark.parametrize("remapped", [False, True], ids=["quit", "remapped term"])
def test_C5_a_cold_shutdown_stops_calls_at_once_whatever_their_policy(setup: Setup, remapped: bool) -> None:
    site = setup.site
    worker = setup.start(**({"REMAP_SIGTERM": "SIGQUIT"} if remapped else {}))
    long, polite = begin(site, SLEEP), begin(site, POLITE, cooperative_grace=5.0)
    spared = begin(site, SLEEP, cancel_policy="cooperative")
    deaf = begin(site, DEAF, cancel_policy="kill")
    worker.process.send_signal(signal.SIGTERM if remapped else signal.SIGQUIT)
    assert [end(site, each) for each in (long, polite, spared, deaf)] == [SHUTDOWN] * 4
    stages = [site.ended(each)["stage"] for each in (long, polite, spared, deaf)]
    assert stages == ["interrupt", "cooperative", "kill", "kill"]
    assert_settled(site, long, polite, spared, deaf)
    assert_gone(site, worker)
    found = site.ask(driver.sql, site.mcp_alias, "SELECT status FROM django_celery_results_taskresult")
    assert found == [("REVOKED",)] * 4


def test_C5_a_soft_shutdown_lets_calls_end_and_cancellations_through(setup: Setup) -> None:
    site = setup.site
    worker = setup.start(MCP_TEST_SOFT_SHUTDOWN="3")
    short, long, cancelled = (begin(site, code) for code in (SHORT, SLEEP, SLEEP))
    worker.process.send_signal(signal.SIGQUIT)
    eventually(lambda: "Initiating Soft Shutdown" in worker.log.read_text(), "the soft shutdown")
    site.cancel(cancelled)
    assert end(site, cancelled) == ("cancelled", "client")
    assert end(site, short) == ("completed", "")
    assert site.ask(driver.row, long)["cancel_requested_at"] is None
    assert end(site, long) == SHUTDOWN
    assert_gone(site, worker)


def test_C5_a_cancellation_reaches_its_tool_while_its_worker_drains(setup: Setup) -> None:
    site = setup.site
    worker = setup.start(MCP_TEST_DRAIN="30")
    call = begin(site, DEAF, cancel_policy="kill")
    worker.process.terminate()
    eventually(lambda: "Warm shutdown" in worker.log.read_text(), "the shutdown")
    site.cancel(call)
    row = site.ended(call)
    assert (row["status"], row["cancel_cause"], row["stage"]) == ("cancelled", "client", "kill")
    assert_gone(site, worker)


def test_C5_a_signal_to_every_process_of_a_worker_is_one_to_the_worker(setup: Setup) -> None:
    """Systemd signals every process of a service in this way."""
    site = setup.site
    worker = setup.start()
    short, long, deaf = begin(site, SHORT), begin(site, SLEEP), begin(site, DEAF, cancel_policy="kill")
    for pid in (worker.pid, *worker.children()):
        os.kill(pid, signal.SIGTERM)
    assert end(site, short) == ("completed", "")
    assert [end(site, each) for each in (long, deaf)] == [SHUTDOWN] * 2
    assert_gone(site, worker)


def children_gone(pids: set[int]) -> bool:
    living = set()
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                living.add(pid)
    return not living


def test_C5_a_child_that_is_told_to_end_finishes_its_call_or_has_it_cancelled_and_goes(site: Site) -> None:
    worker = site.start_worker(concurrency=3)
    short, long, deaf = begin(site, SHORT), begin(site, SLEEP), begin(site, DEAF, cancel_policy="kill")
    told = {site.ask(driver.row, each)["worker_pid"] for each in (short, long, deaf)}
    assert len(told) == 3
    for pid in told:
        os.kill(pid, signal.SIGTERM)
    assert end(site, short) == ("completed", "")
    assert [end(site, each) for each in (long, deaf)] == [SHUTDOWN] * 2
    assert_settled(site, long, deaf)
    eventually(lambda: children_gone(told), "the end of the children")
    assert [site.call("pid")["status"] for _ in range(6)] == ["completed"] * 6
    eventually(lambda: not told & worker.children(), "the pool has buried them")
    assert site.task_ends(short) == ["SUCCESS"]


def tell_until_cancelled(site: Site, call: str, pid: int) -> None:
    """Signal several times, because signals that arrive before the last one was handled count as one."""
    for _ in range(5):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGTERM)
        with suppress(AssertionError):
            eventually(lambda: site.ask(driver.row, call)["cancel_requested_at"], "the cancellation", within=4.0)
            return


def test_C5_a_child_that_is_told_twice_does_not_wait(site: Site) -> None:
    site.start_worker(concurrency=1, MCP_TEST_DRAIN="30")
    call = begin(site, "try: time.sleep(60)\nfinally: open(os.path.join(os.environ['MCPSITE_DATA'], 'left'), 'w')")
    pid = site.ask(driver.row, call)["worker_pid"]
    os.kill(pid, signal.SIGTERM)
    queued = site.submit("pid")
    tell_until_cancelled(site, call, pid)
    assert end(site, call) == SHUTDOWN
    assert (site.data / "left").exists()
    assert_settled(site, call)
    assert site.ended(queued, 40)["status"] == "completed", site.workers[0].log.read_text()
