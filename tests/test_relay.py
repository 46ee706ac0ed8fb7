"""Threads that do short jobs one after another, and long ones beside one another."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait

import pytest

from mcp_app.execution.thread_pool import RelayExecutor
from mcp_app.relay import Pace

SECONDS = 20


@pytest.fixture
def pool() -> Iterator[RelayExecutor]:
    pool = RelayExecutor("test", 8)
    yield pool
    pool.shutdown(cancel_futures=True)


def test_short_jobs_share_a_thread(pool: RelayExecutor):
    done = [pool.submit(threading.get_ident) for _ in range(100)]
    assert len({each.result(SECONDS) for each in done}) == pool.started == 1


def test_jobs_that_wait_are_soon_all_under_way(pool: RelayExecutor):
    together = threading.Barrier(8)
    waiting = [pool.submit(together.wait, SECONDS) for _ in range(8)]
    assert sorted(each.result(SECONDS) for each in waiting) == list(range(8))


def test_what_is_behind_jobs_that_keep_every_thread_is_done_once_one_is_free(pool: RelayExecutor):
    go_on = threading.Event()
    held_up = [pool.submit(go_on.wait, SECONDS) for _ in range(8)]
    behind = pool.submit(lambda: "behind")
    assert not wait([behind], 0.1).done
    go_on.set()
    assert behind.result(SECONDS) == "behind"
    assert all(each.result(SECONDS) for each in held_up)


def test_what_a_job_raises_is_told_to_who_waits_and_harms_no_other(pool: RelayExecutor):
    failed = pool.submit(lambda: 1 / 0)
    left = pool.submit(exit)
    assert isinstance(failed.exception(SECONDS), ZeroDivisionError)
    assert isinstance(left.exception(SECONDS), SystemExit)
    assert pool.submit(lambda: "well").result(SECONDS) == "well"


def test_each_thread_is_made_ready_before_its_first_job():
    own = threading.local()
    pool = RelayExecutor("ready", 2, lambda: setattr(own, "ready", True))
    assert pool.submit(lambda: own.ready).result(SECONDS)
    pool.shutdown()


def test_who_ends_a_pool_waits_for_what_runs_and_leaves_out_the_rest():
    pool = RelayExecutor("ending", 1)
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


def test_more_threads_go_on_where_jobs_wait_for_something_else_than_the_interpreter():
    pace = Pace(8)
    pace.begin(used=1.0, now=10.0)
    seen = []
    for step in range(1, 5):
        pace.step(used=1.0, now=10.0 + step)
        seen.append(pace.threads)
    assert seen == [2, 4, 8, 8]


def test_fewer_threads_go_on_where_they_are_in_each_others_way():
    pace = Pace(4)
    pace.begin(used=0.0, now=0.0)
    pace.step(used=0.1, now=1.0)
    pace.step(used=0.2, now=2.0)
    assert pace.threads == 4
    pace.step(used=0.6, now=3.0)  # neither idle nor busy
    assert pace.threads == 4
    pace.step(used=1.6, now=4.0)
    pace.step(used=2.6, now=5.0)
    assert pace.threads == 2


def test_a_pool_at_rest_begins_again_from_the_time_that_jobs_wait():
    pace = Pace(4)
    pace.begin(used=0.0, now=0.0)
    pace.begin(used=1.0, now=100.0)
    pace.step(used=2.0, now=101.0)
    assert pace.threads == 1
