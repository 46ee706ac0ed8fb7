"""A thread pool that the next signal interrupts while it accepts a job, because the accepting step is slow."""

import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mcp_app.daemon_pool import DaemonThreadPool


def install() -> None:
    """Patch a worker that has no pool yet."""
    submit = DaemonThreadPool.submit

    def submit_and_wait_for_a_signal(
        pool: DaemonThreadPool, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        future = submit(pool, fn, *args, **kwargs)
        while pool._jobs:
            time.sleep(0.01)
        with pool._changed:
            signal.pause()
        return future

    DaemonThreadPool.submit = submit_and_wait_for_a_signal  # type: ignore[assignment] # no other way into that moment
