"""The kinds of Celery's pools, and which of them can run tools."""

from typing import Any

from celery.concurrency import get_implementation
from celery.concurrency.prefork import TaskPool as PreforkTaskPool
from celery.concurrency.thread import TaskPool as ThreadTaskPool

from mcp_app.celery_adapter.thread_pool import JobPool


def is_prefork(pool: Any) -> bool:
    """Return whether a pool runs tasks in processes. Celery names it by a string or a class."""
    return issubclass(get_implementation(pool), PreforkTaskPool)


def can_run_tools(pool: Any) -> bool:
    """Return whether tools can run in a pool. Celery names it by a string or a class."""
    return issubclass(get_implementation(pool), PreforkTaskPool | ThreadTaskPool)


def kind_of(pool: Any) -> str:
    """Return `"prefork"`, `"threads"` or `"async"`. Other pools have Celery's name."""
    if isinstance(pool, PreforkTaskPool):
        return "prefork"
    if isinstance(pool, JobPool):
        return "async"
    if isinstance(pool, ThreadTaskPool):
        return "threads"
    return type(pool).__module__.rsplit(".")[-1]
