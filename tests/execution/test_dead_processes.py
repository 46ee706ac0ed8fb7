"""A process of the pool that ends is replaced at once and its call is closed, whatever ended the process.

The slowest time is logged (`--log-cli-level=INFO`). The assertions leave room for a busy machine. Celery's own
timer would find a dead process after up to 5 s.
"""

import logging
import os
import signal
import time
from itertools import pairwise
from statistics import median

import pytest

from tests.execution import driver
from tests.execution.site import Site, begin_code

pytestmark = pytest.mark.acceptance

logger = logging.getLogger(__name__)

KILLS = 5
OWED = 0.5
ON_A_BUSY_MACHINE = 2.0
DEAF = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})\nopen(READY, 'w').close()\ntime.sleep(60)"
FORKING = """
if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
open(READY, "w").close()
time.sleep(60)
"""
EXITING = "open(READY, 'w').close()\nwhile not os.path.exists(READY + '-go'): time.sleep(0.002)\nos._exit(1)"
GRACE = 0.1


def killed_by_us(site: Site) -> tuple[str, float]:
    call = begin_code(site, DEAF, cancel_policy="kill", hard_grace=GRACE)
    site.cancel(call)
    return call, site.ask(driver.row, call)["cancel_requested_at"].timestamp() + GRACE


def killed_from_outside(site: Site, code: str = DEAF) -> tuple[str, float]:
    call = begin_code(site, code)
    os.kill(site.ask(driver.row, call)["worker_pid"], signal.SIGKILL)
    return call, time.time()


def killed_while_its_fork_lives(site: Site) -> tuple[str, float]:
    return killed_from_outside(site, FORKING)


def exits(site: Site) -> tuple[str, float]:
    call = begin_code(site, EXITING)
    [ready] = site.data.glob("ready-*")
    ready.with_name(f"{ready.name}-go").touch()
    return call, time.time()


@pytest.mark.fault("I1")
@pytest.mark.parametrize("end", [killed_by_us, killed_from_outside, killed_while_its_fork_lives, exits])
def test_I1_a_dead_process_is_replaced_and_its_call_is_closed_at_once(one_slot, end):
    closed, begun = [], []
    for _ in range(KILLS):
        call, died_at = end(one_slot)
        waiting = one_slot.submit("pid")
        closed.append(one_slot.ended(call)["finished_at"].timestamp() - died_at)
        begun.append(one_slot.ended(waiting)["claimed_at"].timestamp() - died_at)
        for left in one_slot.data.glob("ready-*"):
            left.unlink()
    logger.info("I1, %s: closed after %.2f s, the next call began after %.2f s", end.__name__, max(closed), max(begun))
    assert max(closed + begun) < ON_A_BUSY_MACHINE, (closed, begun)
    assert median(closed) < OWED


def test_a_process_that_ends_after_its_call_is_replaced_at_once(site):
    """Celery ends such processes for `worker_max_tasks_per_child` and `worker_max_memory_per_child`."""
    site.start_worker(concurrency=1, MCP_TEST_MAX_TASKS="1")
    ended = [site.call("pid") for _ in range(6)]
    assert len({each["worker_pid"] for each in ended}) == len(ended)
    gaps = [(after["claimed_at"] - before["finished_at"]).total_seconds() for before, after in pairwise(ended)]
    assert max(gaps) < ON_A_BUSY_MACHINE, gaps
