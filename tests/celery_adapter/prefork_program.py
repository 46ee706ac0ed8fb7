"""Run a prefork pool of Celery in a process of its own, as a worker does, and print the results as JSON."""

import json
import os
import signal
import time
from types import SimpleNamespace
from typing import Any

from celery import Celery
from celery.concurrency.prefork import TaskPool
from kombu.asynchronous import Hub, set_event_loop
from psutil import Process

from mcp_app.celery_adapter.prefork import PreforkPool, watch_processes

PATIENCE = 3.0
"""Seconds. Celery's own timer runs every 5 seconds."""


def ended(pid: int) -> None:
    """Kill a process and wait until its parent can detect the end."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def main() -> dict[str, Any]:
    hub = Hub()
    set_event_loop(hub)
    app = Celery("contract", broker="memory://")
    pool = TaskPool(2, app=app, threads=False, initargs=(app, "worker@contract"))
    pool.start()
    pool.register_with_event_loop(hub)
    ours = PreforkPool(SimpleNamespace(pool=pool))
    told: dict[str, Any] = {"pids": sorted(ours.pids()), "of_pool": sorted(p.pid for p in pool._pool._pool)}
    told["are_children"] = ours.pids() <= {child.pid for child in Process().children()}

    first = min(ours.pids())
    ended(first)
    pool.maintain_pool()
    told["replaced"] = first not in ours.pids() and len(ours.pids()) == 2

    second = min(ours.pids())
    [process] = [each for each in pool._pool._pool if each.pid == second]
    os.kill(second, signal.SIGSTOP)
    pool.terminate_job(second, signal.SIGSTOP)
    told["marks"] = [process._controlled_termination, process._job_terminated]
    told["still_there"] = os.waitid(os.P_PID, second, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    watch_processes(SimpleNamespace(pool=pool, hub=hub))
    loop = hub.create_loop()
    next(loop)
    began = time.monotonic()
    os.kill(second, signal.SIGKILL)
    while second in ours.pids() and time.monotonic() < began + PATIENCE:
        next(loop)
    told["found_after"] = time.monotonic() - began

    hub.reset()
    loop = hub.create_loop()
    third = min(ours.pids())
    began = time.monotonic()
    os.kill(third, signal.SIGKILL)
    while third in ours.pids() and time.monotonic() < began + PATIENCE:
        next(loop)
    told["found_after_reset"] = time.monotonic() - began
    for pid in ours.pids():
        os.kill(pid, signal.SIGKILL)
    return told


if __name__ == "__main__":
    print(json.dumps(main()), flush=True)  # noqa: T201 (the test reads this)
    os._exit(0)
