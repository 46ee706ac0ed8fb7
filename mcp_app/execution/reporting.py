"""What Celery is told of a run: its own result of the task, for people. It is never the truth.

A stop is REVOKED with our words, an unexpected exception FAILURE with its traceback, everything else SUCCESS. As most
runs end so, that result is written with the end of the request, or, of calls that came in one message, with those of
the others; and Celery is asked to write none.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from celery import Task
from celery.exceptions import Ignore

from mcp_app.execution.ending import Ending
from mcp_app.execution.recorder import Recorder
from mcp_app.lifecycle import celery_results
from mcp_app.lifecycle.celery_results import Result, StoredResult
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)


class OutOfMemoryError(Exception):
    """A tool's MemoryError as Celery is told of it: under its own name it would end the worker, with all its calls."""


LONGEST_KEPT = 0.1
"""Seconds from the first call on in which results wait for those of others: later each is stored before the next call,
which may run for long."""


class Together:
    """The results of runs that follow one another, written in one transaction."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: list[StoredResult] = []
        self._began_at = time.monotonic()

    def keep(self, result: Result) -> None:
        self._kept.append(result.stored())

    def store_if_due(self) -> None:
        """After each call."""
        if time.monotonic() - self._began_at > LONGEST_KEPT:
            self.store()

    def store(self) -> None:
        """Never raises: nobody waits for it."""
        kept, self._kept = self._kept, []
        if not kept:
            return
        try:
            self._recorder.call_here(partial(celery_results.store_all, kept), patience=0)
        except Exception:
            logger.warning("Celery's results of %d requests are as they were", len(kept), exc_info=True)


_together: ContextVar[Together | None] = ContextVar("mcp_app_results_together", default=None)


@dataclass(frozen=True, slots=True)
class Success:
    """Celery's result of a run that is about to be closed, where Celery need not write it."""

    result: Result
    task_request: Any

    @property
    def beside(self) -> StoredResult | None:
        """What is to be written with the end."""
        return self.result.stored() if _together.get() is None else None

    def is_seen_to(self) -> None:
        """The end is written."""
        if (together := _together.get()) is not None:
            together.keep(self.result)
        self.task_request.ignore_result = True  # Celery looks at this as it is about to store the result


@contextmanager
def kept_together(recorder: Recorder) -> Iterator[Together]:
    """Have the results of the runs within written together, after the last or when they are due."""
    together = Together(recorder)
    token = _together.set(together)
    try:
        yield together
    finally:
        _together.reset(token)
        together.store()


def success(task: Task | None, ending: Ending) -> Success | None:
    """In the thread that runs the task; None where Celery is to store the result by itself, or there is no task."""
    if task is None or ending.raised is not None:
        return None
    result = celery_results.of_success(task, ending.status.value)
    return None if result is None else Success(result, task.request)


def report(recorder: Recorder, task: Task, row: Request, status: Status | None, ending: Ending) -> str:
    """Return, or raise, what Celery makes its result of."""
    if status is None:
        raise Ignore
    if status == Status.CANCELLED:
        # Celery's own way, to raise Ignore, would have it copy the code of all that ran there, twice. On the recorder's
        # connection: this thread's was dropped with the call.
        recorder.call_here(lambda: celery_results.store_stopped(task, _why(row)))
        return status.value
    if isinstance(ending.raised, MemoryError):
        raise OutOfMemoryError(str(ending.raised)) from ending.raised
    if ending.raised is not None:
        raise ending.raised
    return status.value


def _why(row: Request) -> str:
    fresh = Request.objects.values_list("cancel_cause", "cancel_reason").filter(pk=row.pk).first()
    cause, reason = fresh or ("", "")
    return f"{cause}: {reason}" if reason else str(cause)
