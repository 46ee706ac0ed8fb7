"""This site's Celery worker in this process: its queues, its options, and that it ends with the process it belongs to.

Its pool is prefork, where every tool can be stopped for certain, or for many calls that wait threads, or async, where
those of coroutines take none.
"""

import ctypes
import os
import secrets
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress

import psutil
from celery import current_app
from celery.platforms import SecurityWarning
from celery.utils.nodenames import default_nodename, host_format
from django.db import connections

from mcp_app.catalogue import rows
from mcp_app.conf import settings
from mcp_app.execution import async_pool, closing, processes, thread_pool
from mcp_app.execution.worker import take_for_tools
from mcp_app.management import terminal

MARKER = "MCP_WORKER"
"""In the environment of a worker and all that it starts: a token of who started it."""
PREFORK = "prefork"
POOLS = {PREFORK: PREFORK, "threads": thread_pool.NAME, "async": async_pool.NAME}
"""By name what Celery knows them by."""
PR_SET_PDEATHSIG = 1
PARENT_POLL_SECONDS = 0.5


def default_concurrency() -> int:
    """One tool a core, and some for tools that wait rather than compute."""
    return max(4, os.cpu_count() or 1)


def welcome(concurrency: int, queues: Sequence[str] | None) -> str:
    """What a person is told who starts one: Celery itself stays silent."""
    taken = terminal.one_line(", ".join(queues or sorted(rows.queues())))
    return f"Running {terminal.count_of(concurrency, 'call')} at once, from the queues {taken}. Ctrl-C ends it."


def run(*, concurrency: int, queues: Sequence[str] | None, pool: str = PREFORK, parent_pid: int | None = None) -> int:
    """Run the worker until it is told to stop; its exit status. With `parent_pid` it ends with that process.

    `queues` None: every queue that a tool is sent to, those included that administrators name while it runs.
    """
    if parent_pid is not None:
        end_with(parent_pid)
    # About pickled messages run by root: with them accepted Celery refuses to start, and ours are JSON.
    warnings.simplefilter("ignore", SecurityWarning)
    consumed = sorted(rows.queues()) if queues is None else list(queues)
    connections.close_all()  # the pool is forked: no child may hold a connection of this process
    worker = current_app.Worker(
        hostname=host_format(default_nodename(f"mcp-{secrets.token_hex(4)}@%h")),
        pool_cls=POOLS[pool],
        concurrency=concurrency,
        queues=consumed,
        prefetch_multiplier=1,  # a call that is fetched waits for this worker, whoever else is free
        time_limit=0,  # the site's limits are for its own tasks; a tool's end by the ladder
        soft_time_limit=0,
        loglevel="WARNING",
        quiet=True,
        # They let workers know of each other, which nobody here needs, and cost broadcasts at every start.
        without_gossip=True,
        without_mingle=True,
    )
    take_for_tools(worker, follows=queues is None)
    worker.start()
    return int(worker.exitcode or 0)


def stop_seconds(pool: str = PREFORK) -> float:
    """What a worker is given from SIGTERM to its end: what its running calls are given, then the ladder's time.

    With threads also the time to say, in its process's last program, which of them did not end.
    """
    seconds = float(settings.DRAIN_SECONDS + settings.HARD_GRACE + 2.0)
    return seconds if pool == PREFORK else seconds + closing.SECONDS


def kill_worker(token: str, pid: int | None, *, spare: frozenset[int] = frozenset()) -> bool:
    """Kill the worker `pid`, all below it and all that `token` marks, `spare` excepted; whether none is left."""
    tree = set()
    if pid is not None:
        with suppress(psutil.NoSuchProcess):
            tree = {psutil.Process(pid), *processes.descendants(pid)}
    return processes.kill_all(token, tree, marker=MARKER, spare=spare)


def end_with(parent_pid: int) -> None:
    """Stop this process when its parent is gone, killed included: at once on Linux, within a moment elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        raise SystemExit(f"The process {parent_pid} that this worker belongs to is gone.")
    threading.Thread(target=_follow, args=(parent_pid,), name="mcp-parent", daemon=True).start()


def _follow(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    # The thread ends with the process, unless a tool keeps it past its time.
    time.sleep(stop_seconds())
    kill_worker(os.environ.get(MARKER, ""), os.getpid(), spare=frozenset({os.getpid()}))
    os.kill(os.getpid(), signal.SIGKILL)
