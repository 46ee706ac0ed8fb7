"""The command line and environment variables of the worker of the bare Celery app (`bench.floor_app`)."""

import os

QUEUE = "bench-floor"
INBOX = "BENCH_FLOOR_INBOX"
"""The environment variable that holds the path of the datagram socket."""
SETTINGS = "bench.floor_settings"
CONCURRENCY = max(4, os.cpu_count() or 1)
"""The number of processes for tasks, as by default in `mcp worker`."""


def command(concurrency: int = CONCURRENCY) -> list[str]:
    """Return the arguments for the interpreter. The pool, gossip and mingle are set as for the site's own worker."""
    options = [f"--concurrency={concurrency}", f"--queues={QUEUE}", "--pool=prefork", "--loglevel=ERROR"]
    apart = ["--without-gossip", "--without-mingle", "--hostname=bench-floor@localhost"]
    return ["-m", "celery", "-A", "bench.floor_app", "-q", "worker", *options, *apart]
