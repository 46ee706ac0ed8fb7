"""Celery's own result of a run that ended without its task: else it would say for ever that the task has begun.

For people alone: the row is the truth, and nobody waits for what is written here. Refuses to raise.
"""

import logging
from uuid import UUID

from celery import current_app
from celery.exceptions import WorkerLostError

logger = logging.getLogger(__name__)


def tell_lost(request_id: UUID, why: str) -> None:
    """The process that ran it is gone: what Celery itself stores where it sees that."""
    try:
        current_app.backend.mark_as_failure(str(request_id), WorkerLostError(why))
    except Exception:
        logger.warning("Celery's result of request %s is as it was", request_id, exc_info=True)


def tell_stopped(request_id: UUID, why: str) -> None:
    """It was stopped, and its process with it."""
    try:
        current_app.backend.mark_as_revoked(str(request_id), why)
    except Exception:
        logger.warning("Celery's result of request %s is as it was", request_id, exc_info=True)
