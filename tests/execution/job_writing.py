"""`python -m tests.execution.job_writing STRATEGY`: Celery's pool of two processes and its event loop, by themselves.

Prints what became of its jobs as JSON.
"""

import json
import os
import signal
import sys
import time
import traceback
from types import SimpleNamespace
from typing import Any

from celery import Celery
from celery.concurrency.prefork import TaskPool
from kombu.asynchronous import Hub, set_event_loop

from mcp_app.execution import job_writes

SECONDS = 30.0
JOBS = 5


def main(strategy: str) -> None:
    hub = Hub()
    set_event_loop(hub)
    app = Celery("jobs", set_as_current=False)
    options = {"initargs": (app, "jobs@localhost"), "threads": False, "putlocks": False, "sched_strategy": strategy}
    pool = TaskPool(2, app=app, **options)
    pool.start()
    status = 1
    try:
        pool.register_with_event_loop(hub)
        sys.stdout.write(json.dumps(_told(pool, hub)))
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
    job_writes.install(SimpleNamespace(pool=pool, hub=hub))
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


def _turn(hub: Hub, until: Any) -> None:
    give_up_at = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < give_up_at, "the pool does nothing"
        hub.run_once()


if __name__ == "__main__":
    main(sys.argv[1])
