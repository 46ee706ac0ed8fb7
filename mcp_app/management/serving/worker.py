"""`mcp worker`: runs this site's Celery worker in this process.

The default pool is prefork, in which every tool can be stopped. The pools for many waiting calls are threads, and async
for coroutines.
"""

import ctypes
import os
import secrets
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress

import psutil
from celery import current_app
from celery.exceptions import SecurityWarning
from django.db import connections

from mcp_app.catalogue import tool_rows
from mcp_app.celery_adapter import consumer, thread_pool
from mcp_app.conf import settings
from mcp_app.execution.pools import async_pool, closing
from mcp_app.execution.stopping import processes
from mcp_app.execution.worker import take_for_tools
from mcp_app.management import terminal
from mcp_app.management.serving import gc_tuning

MARKER = "MCP_WORKER"
"""An environment variable of a worker and its processes, with a token of the process that started it."""
PREFORK = "prefork"
POOLS = {PREFORK: PREFORK, "threads": thread_pool.NAME, "async": async_pool.NAME}
"""Celery's names of the pools."""
PR_SET_PDEATHSIG = 1
PARENT_POLL_SECONDS = 0.5


def default_concurrency() -> int:
    """Return one slot for each core, and some more for tools that wait."""
    return max(4, os.cpu_count() or 1)


def welcome(concurrency: int, queues: Sequence[str] | None) -> str:
    """Return the message for people who start a worker, because Celery itself prints nothing."""
    taken = terminal.one_line(", ".join(queues or sorted(tool_rows.queues())))
    return f"Runs up to {terminal.count_of(concurrency, 'call')} at once, from the queues {taken}. Ctrl-C stops it."


def run(*, concurrency: int, queues: Sequence[str] | None, pool: str = PREFORK, parent_pid: int | None = None) -> int:
    """Run the worker until it is stopped, and return its exit status.

    With `parent_pid`, it ends with that process. Without `queues`, it consumes all queues of tools, including those
    that administrators name while it runs.
    """
    if parent_pid is not None:
        end_with(parent_pid)
    # Celery refuses to run as root if it accepts pickle. Our messages are JSON.
    warnings.simplefilter("ignore", SecurityWarning)
    consumed = sorted(tool_rows.queues()) if queues is None else list(queues)
    connections.close_all()  # before the pool is forked, so that no child inherits a connection
    if consumer.kind_of_broker(current_app) == "redis":
        current_app.conf.worker_disable_prefetch = True  # Celery ignores it for other brokers, with a warning
    worker = current_app.Worker(
        hostname=f"mcp-{secrets.token_hex(4)}@{socket.gethostname()}",
        pool_cls=POOLS[pool],
        concurrency=concurrency,
        queues=consumed,
        prefetch_multiplier=1,  # a prefetched call would wait for this worker even if another one is free
        time_limit=0,  # the site's limits are for its own tasks; the ladder ends tools
        soft_time_limit=0,
        loglevel="WARNING",
        quiet=True,
        # Gossip and mingle are not needed, and send broadcasts at every start.
        without_gossip=True,
        without_mingle=True,
    )
    take_for_tools(worker, follows=queues is None)
    gc_tuning.tune()
    worker.start()
    return int(worker.exitcode or 0)


def stop_seconds(pool: str = PREFORK) -> float:
    """Return the seconds that a worker may take from SIGTERM to its end: the time for its calls, then for the ladder.

    A pool of threads also needs time for the program that closes the rows of threads that did not end.
    """
    seconds = float(settings.DRAIN_SECONDS + settings.HARD_GRACE + 2.0)
    return seconds if pool == PREFORK else seconds + closing.SECONDS


def kill_worker(token: str, pid: int | None, *, spare: frozenset[int] = frozenset()) -> bool:
    """Kill the worker `pid`, its descendants, and processes with `token`, but not `spare`. Return whether all ended."""
    tree = set()
    if pid is not None:
        with suppress(psutil.NoSuchProcess):
            tree = {psutil.Process(pid), *processes.descendants(pid)}
    return processes.kill_all(token, lambda: tree, marker=MARKER, spare=spare)


def end_with(parent_pid: int) -> None:
    """Stop this process when its parent ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        raise SystemExit(f"The process {parent_pid} that this worker belongs to is gone.")
    threading.Thread(target=_follow, args=(parent_pid,), name="mcp-parent", daemon=True).start()


def _follow(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    # The thread ends with the process, unless a tool blocks it.
    time.sleep(stop_seconds())
    kill_worker(os.environ.get(MARKER, ""), os.getpid(), spare=frozenset({os.getpid()}))
    os.kill(os.getpid(), signal.SIGKILL)
