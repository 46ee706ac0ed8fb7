"""Supervision: finds what was lost and finishes what nobody else will. Every step is conditional: twice is once.

Run on a timer by each worker's main process, and by a server process while clients wait in it. Refuses to run a tool
again: a lost call is an error for its client, never a silent second run.
"""

import logging
from collections.abc import Callable
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from mcp_app.conf import settings
from mcp_app.lifecycle import cancellation, publishing, transitions
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.lifecycle.clock import from_now
from mcp_app.models import Process, Request
from mcp_app.states import OPEN, Cause, ProcessRole, Status

logger = logging.getLogger(__name__)

BATCH = 500
FORGET_AFTER = 86_400.0


def supervise() -> None:
    """One round. A step that fails is logged and the others still run; the next round tries again."""
    for step in (
        lose_requests_of_silent_workers,
        cancel_requests_of_silent_servers,
        cancel_overdue_requests,
        republish_unclaimed_requests,
        forget_old_processes,
    ):
        _guarded(step)


def lose_requests_of_silent_workers() -> None:
    """RUNNING → LOST where the worker has been silent for `LOST_AFTER` seconds or says that it stopped."""
    for request_id in _running().exclude(Exists(_alive("worker", ProcessRole.WORKER)))[:BATCH]:
        lose(request_id, "its worker process died or went silent")


def cancel_requests_of_silent_servers() -> None:
    """A dead server's clients are gone: on the modern wire that is a disconnect."""
    orphans = (
        Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=True, server__isnull=False)
        .exclude(Exists(_alive("server", ProcessRole.SERVER)))
        .filter(submitted_at__lt=from_now(-settings.LOST_AFTER))
    )
    for request_id in orphans.values_list("pk", flat=True)[:BATCH]:
        cancellation.cancel(
            request_id, cause=Cause.LOST_SERVER, actor=SYSTEM, reason="the server process died or went silent"
        )


def cancel_overdue_requests() -> None:
    """Past the deadline: for its claim while queued, for its end while running."""
    overdue = Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=True, deadline_at__lt=from_now(0))
    for request_id in overdue.values_list("pk", flat=True)[:BATCH]:
        cancellation.cancel(request_id, cause=Cause.DEADLINE, actor=SYSTEM, reason="the time limit has passed")


def republish_unclaimed_requests() -> None:
    """Send queued rows again, each time after twice as long: a message may be lost, or merely wait its turn."""
    waiting = Request.objects.filter(
        Q(published_at__isnull=True) | Q(published_at__lt=from_now(-settings.REPUBLISH_AFTER)),
        status=Status.QUEUED,
        submitted_at__lt=from_now(-settings.REPUBLISH_AFTER),
    ).annotate(now=from_now(0))
    for row in waiting[:BATCH]:
        sent_at = row.published_at or row.submitted_at
        if row.now - sent_at >= sent_at - row.submitted_at:
            publishing.republish(row)


def forget_old_processes() -> None:
    """Drop liveness rows that no open request refers to, a day after their last word."""
    Process.objects.filter(heartbeat_at__lt=from_now(-FORGET_AFTER)).delete()


def lose(request_id: UUID, why: str) -> bool:
    """RUNNING → LOST; whether it took. Half-killed rows are closed by the same word."""
    error = {"cause": "lost", "message": why}
    lost = transitions.finish(request_id, Status.LOST, error=error) or transitions.finish(
        request_id, Status.LOST, fenced=True, error=error
    )
    if lost:
        logger.error("request %s is lost: %s", request_id, why)
    return lost is not None


def _running() -> QuerySet[Request, UUID]:
    return Request.objects.filter(status=Status.RUNNING, worker__isnull=False).values_list("pk", flat=True)


def _alive(column: str, role: ProcessRole) -> QuerySet[Process]:
    return Process.objects.filter(
        boot_id=OuterRef(column),
        role=role,
        stopped_at__isnull=True,
        heartbeat_at__gte=from_now(-settings.LOST_AFTER),
    )


def _guarded(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:
        logger.exception("supervision: %s failed and is tried again", step.__name__)
