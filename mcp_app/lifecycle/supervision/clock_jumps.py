"""Restarts waits, or moves their ends, after the database's clock was set.

Waits are measured in database time, because any process may supervise them. Requests wait in the
queue, for their client's answer, or for a client that has disconnected; tasks and sessions wait
until they expire. If the clock is set forward by an hour, these waits would end an hour early. So
the waits of requests and sessions begin again. The expiry of a task is moved, and only if the jump
skipped it.

A process detects a jump because its own monotonic clock does not jump (`processes.read_jump`). Its
next round then restarts the waits. Several processes may detect the same jump. Then waits begin
again more than once, and a task may be kept longer.

The time limit of a running tool is not affected. It is measured by the process that runs the tool
and by the main process of the worker (`execution.process.ladder`).
"""

import logging
from datetime import timedelta

from django.db.models import ExpressionWrapper, F
from django.db.models.expressions import Combinable

from mcp_app.conf import settings
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import ReadQuestion, Request, Session
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.states import OPEN, Status

logger = logging.getLogger(__name__)


def restart_waits_if_clock_was_set() -> None:
    """Restart waits if the clock was set by more than half of `LOST_AFTER` since the last call.

    A step of supervision.
    """
    if jump := processes.read_jump():
        logger.warning("the database's clock jumped by %.0f s: the deadlines of waiting requests are moved", jump)
        _restart_waits(jump)
        processes.forget_jump()


@transactional
def _restart_waits(jump: float) -> None:
    is_open = Request.objects.filter(status__in=OPEN)
    queued = is_open.filter(status=Status.QUEUED)
    limits = list(queued.filter(caller_limit__isnull=False).values_list("caller_limit", flat=True).distinct())
    for limit in (None, *limits):
        since_now = {"queued_at": Now(), "deadline_at": transitions.deadline_in_the_queue(limit)}
        queued.filter(caller_limit=limit).update(**since_now)
    asking = is_open.filter(status=Status.INPUT_REQUIRED)
    asking.update(deadline_at=from_now(settings.MAX_INPUT_SECONDS))
    is_open.filter(left_at__isnull=False).update(left_at=Now())
    Session.objects.update(seen_at=Now())
    ReadQuestion.objects.update(asked_at=Now())
    if jump > 0:
        skipped = (from_now(-jump), Now())
        is_open.filter(status=Status.RUNNING, deadline_at__range=skipped).update(
            deadline_at=_add_seconds("deadline_at", jump)
        )
        tasks = Request.objects.filter(task_handle__isnull=False, task_expires_at__range=skipped)
        tasks.update(task_expires_at=_add_seconds("task_expires_at", jump))


def _add_seconds(column: str, seconds: float) -> Combinable:
    return ExpressionWrapper(F(column) + timedelta(seconds=seconds), output_field=UTCDateTimeField())
