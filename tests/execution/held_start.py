"""A pool of threads whose start of a thread is cut by the next signal: that moment takes all the time it is given."""

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def install() -> None:
    """In a worker that has no pool yet."""
    start: Any = ThreadPoolExecutor._adjust_thread_count  # type: ignore[attr-defined] # private, and its name in all versions

    def start_and_wait_for_a_signal(executor: ThreadPoolExecutor) -> None:
        start(executor)
        signal.pause()

    ThreadPoolExecutor._adjust_thread_count = start_and_wait_for_a_signal  # type: ignore[attr-defined] # as above
