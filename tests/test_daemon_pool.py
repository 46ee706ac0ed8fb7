"""A pool of daemon threads behaves like any other executor."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait

import pytest

from mcp_app.daemon_pool import DaemonThreadPool

SECONDS = 20


@pytest.fixture
def pool() -> Iterator[DaemonThreadPool]:
    pool = DaemonThreadPool("test", 8)
    yield pool
    pool.shutdown(cancel_futures=True)


def test_a_thread_that_is_idle_takes_the_next_job(pool: DaemonThreadPool):
    assert len({pool.submit(threading.get_ident).result(SECONDS) for _ in range(20)}) <= pool.started <= 2


def test_jobs_that_wait_are_soon_all_under_way(pool: DaemonThreadPool):
    together = threading.Barrier(8)
    waiting = [pool.submit(together.wait, SECONDS) for _ in range(8)]
    assert sorted(each.result(SECONDS) for each in waiting) == list(range(8))


def test_what_is_behind_jobs_that_keep_every_thread_is_done_once_one_is_free(pool: DaemonThreadPool):
    go_on = threading.Event()
    held_up = [pool.submit(go_on.wait, SECONDS) for _ in range(8)]
    behind = pool.submit(lambda: "behind")
    assert not wait([behind], 0.1).done
    go_on.set()
    assert behind.result(SECONDS) == "behind"
    assert all(each.result(SECONDS) for each in held_up)


def test_what_a_job_raises_is_told_to_who_waits_and_harms_no_other(pool: DaemonThreadPool):
    failed = pool.submit(lambda: 1 / 0)
    left = pool.submit(exit)
    assert isinstance(failed.exception(SECONDS), ZeroDivisionError)
    assert isinstance(left.exception(SECONDS), SystemExit)
    assert pool.submit(lambda: "well").result(SECONDS) == "well"


def test_each_thread_is_made_ready_before_its_first_job():
    own = threading.local()
    pool = DaemonThreadPool("ready", 2, lambda: setattr(own, "ready", True))
    assert pool.submit(lambda: own.ready).result(SECONDS)
    pool.shutdown()


def test_who_ends_a_pool_waits_for_what_runs_and_leaves_out_the_rest():
    pool = DaemonThreadPool("ending", 1)
    begun, go_on = threading.Event(), threading.Event()
    running = pool.submit(lambda: (begun.set(), go_on.wait(SECONDS))[1])
    queued = pool.submit(lambda: "never")
    assert begun.wait(SECONDS)
    ending = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True})
    ending.start()
    with pytest.raises(CancelledError):
        queued.result(SECONDS)
    assert ending.is_alive()
    go_on.set()
    ending.join(SECONDS)
    assert not ending.is_alive()
    assert (running.result(), queued.cancelled()) == (True, True)
    with pytest.raises(RuntimeError):
        pool.submit(lambda: "late")


def test_a_thread_ends_well_though_somebody_gave_up_waiting_for_it():
    pool = DaemonThreadPool("given-up", 1)
    go_on = threading.Event()
    pool.submit(go_on.wait, SECONDS)
    pool.shutdown(wait=False)
    [ended] = pool.running()
    assert not ended.cancel()
    go_on.set()
    assert ended.result(SECONDS) is None
