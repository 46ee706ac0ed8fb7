"""`python -m tests.execution.job_writing STRATEGY [PATIENCE]`: Celery's pool of two processes and its event loop, by
themselves. Prints what became of its jobs as JSON: with a patience, of those that are several quick calls.
"""

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from functools import partial
from types import SimpleNamespace
from typing import Any

import django
from celery import Celery
from celery.concurrency.prefork import TaskPool
from kombu.asynchronous import Hub, set_event_loop
from kombu.asynchronous.semaphore import LaxBoundedSemaphore

django.setup()

from mcp_app.execution import job_writes  # noqa: E402 - it knows the models
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK  # noqa: E402 - the same

SECONDS = 30.0
JOBS = 5
FOR_EVER = 60.0


def quick(task: str) -> int:
    return os.getpid()


def slow(task: str, path: str) -> int:
    """Until a file is there."""
    while not os.path.exists(path):
        time.sleep(0.005)
    return os.getpid()


def main(strategy: str, patience: float = 0.0) -> None:
    hub = Hub()
    set_event_loop(hub)
    app = Celery("jobs", set_as_current=False)
    options = {"initargs": (app, "jobs@localhost"), "threads": False, "putlocks": False, "sched_strategy": strategy}
    slots = LaxBoundedSemaphore(2)
    pool = TaskPool(2, app=app, semaphore=slots if patience else None, **options)
    pool.start()
    status = 1
    try:
        pool.register_with_event_loop(hub)
        told = _told_of_quick_calls(pool, hub, slots, patience) if patience else _told(pool, hub)
        sys.stdout.write(json.dumps(told))
        sys.stdout.flush()
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        for process in pool._pool._pool:
            os.kill(process.pid, signal.SIGKILL)
        os._exit(status)  # what Celery's pool does at its end takes seconds


def _told(pool: Any, hub: Hub) -> dict[str, Any]:
    jobs = pool._pool
    _turn(hub, lambda: len(jobs._all_inqueues) == 2)
    celerys = jobs.on_poll_start
    job_writes.install(SimpleNamespace(pool=pool, hub=hub), 0.0)
    alone: list[int] = []
    pool.apply_async(os.getpid, callback=alone.append)
    left_of_one = len(jobs.outbound_buffer)
    _turn(hub, lambda: bool(alone))
    many: list[int] = []
    for _ in range(JOBS):
        pool.apply_async(os.getpid, callback=many.append)
    left_of_many = len(jobs.outbound_buffer)
    _turn(hub, lambda: len(many) == JOBS)
    for tick in list(hub.on_tick):
        tick()
    return {
        "left_of_one": left_of_one,
        "left_of_many": left_of_many,
        "done": len(alone) + len(many),
        "processes": len(set(many)),
        "watched": len(jobs._all_inqueues & hub.writers.keys()),
        "celerys_own": celerys in hub.on_tick,
    }


def _told_of_quick_calls(pool: Any, hub: Hub, slots: LaxBoundedSemaphore, patience: float) -> dict[str, Any]:
    jobs = pool._pool
    _turn(hub, lambda: len(jobs._all_inqueues) == 2)
    job_writes.install(SimpleNamespace(pool=pool, hub=hub, semaphore=slots), patience)

    def submit(function: Any, *args: str, done: list[int]) -> None:
        """As the worker does, which lets no more into the pool than it has processes."""
        slots.acquire(partial(pool.apply_async, function, args=args, callback=done.append))

    with tempfile.TemporaryDirectory() as folder:
        go = os.path.join(folder, "go")
        held: list[int] = []
        beside: list[int] = []
        submit(slow, RUN_BATCH_TASK, go, done=held)
        submit(quick, RUN_BATCH_TASK, done=beside)
        left_waiting = len(jobs.outbound_buffer)
        if patience == FOR_EVER:
            submit(quick, "one", done=beside)
        _turn(hub, lambda: len(beside) == (2 if patience == FOR_EVER else 1))
        ended_meanwhile = len(held)
        open(go, "w").close()
        _turn(hub, lambda: len(held) == 1)
    followed: list[int] = []
    for _ in range(2):
        submit(quick, RUN_BATCH_TASK, done=followed)
    _turn(hub, lambda: len(followed) == 2)
    closing: list[int] = []
    for _ in range(2):
        submit(quick, RUN_BATCH_TASK, done=closing)
    left_before_close = len(jobs.outbound_buffer)
    pool.close()
    return {
        "left_waiting": left_waiting,
        "ended_meanwhile": ended_meanwhile,
        "beside": len(set(beside) - set(held)),
        "processes_that_followed": len(set(followed)),
        "left_before_close": left_before_close,
        "left_at_close": len(jobs.outbound_buffer),
    }


def _turn(hub: Hub, until: Any) -> None:
    give_up_at = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < give_up_at, "the pool does nothing"
        hub.run_once()


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
