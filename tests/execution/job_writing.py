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
from types import SimpleNamespace
from typing import Any

import django
from celery import Celery
from celery.concurrency.prefork import TaskPool
from kombu.asynchronous import Hub, set_event_loop

django.setup()

from mcp_app.execution import job_writes  # noqa: E402 - it knows the models
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK  # noqa: E402 - the same

SECONDS = 30.0
JOBS = 5


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
    pool = TaskPool(2, app=app, **options)
    pool.start()
    status = 1
    try:
        pool.register_with_event_loop(hub)
        told = _told_of_quick_calls(pool, hub, patience) if patience else _told(pool, hub)
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


def _told_of_quick_calls(pool: Any, hub: Hub, patience: float) -> dict[str, Any]:
    jobs = pool._pool
    _turn(hub, lambda: len(jobs._all_inqueues) == 2)
    job_writes.install(SimpleNamespace(pool=pool, hub=hub), patience)
    followed: list[int] = []
    for _ in range(JOBS):
        pool.apply_async(quick, args=(RUN_BATCH_TASK,), callback=followed.append)
    left_of_quick = len(jobs.outbound_buffer)
    _turn(hub, lambda: len(followed) == JOBS)
    with tempfile.TemporaryDirectory() as folder:
        go = os.path.join(folder, "go")
        held: list[int] = []
        pool.apply_async(slow, args=(RUN_BATCH_TASK, go), callback=held.append)
        beside: list[int] = []
        pool.apply_async(quick, args=(RUN_BATCH_TASK,), callback=beside.append)
        left_of_beside = len(jobs.outbound_buffer)
        # A call that came alone waits for nobody, nor do those before it.
        pool.apply_async(quick, args=("one",), callback=beside.append)
        _turn(hub, lambda: len(beside) == 2)
        ended_meanwhile = len(held)
        open(go, "w").close()
        _turn(hub, lambda: len(held) == 1)
    return {
        "left_of_quick": left_of_quick,
        "processes_of_quick": len(set(followed)),
        "left_of_beside": left_of_beside,
        "ended_meanwhile": ended_meanwhile,
        "beside": len(set(beside) - set(held)),
    }


def _turn(hub: Hub, until: Any) -> None:
    give_up_at = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < give_up_at, "the pool does nothing"
        hub.run_once()


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
