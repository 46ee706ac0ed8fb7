"""How the worker of the bare Celery app (`bench.floor_app`) is started, and what it is told by its environment."""

import os

QUEUE = "bench-floor"
INBOX = "BENCH_FLOOR_INBOX"
"""The environment variable that holds the path of the datagram socket."""
SETTINGS = "bench.floor_settings"
CONCURRENCY = max(4, os.cpu_count() or 1)
"""Processes for tasks: the default of `mcp worker`."""


def command(concurrency: int = CONCURRENCY) -> list[str]:
    """What follows the interpreter; the options are those of the site's own worker."""
    options = [f"--concurrency={concurrency}", f"--queues={QUEUE}", "--pool=prefork", "--loglevel=ERROR"]
    apart = ["--without-gossip", "--without-mingle", "--hostname=bench-floor@localhost"]
    return ["-m", "celery", "-A", "bench.floor_app", "-q", "worker", *options, *apart]
