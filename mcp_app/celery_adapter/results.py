"""Store results in Celery's backend for runs that were stopped, or whose process died.

Celery's worker stores the result of a run that raises, and none of a run that returns. The row is
the truth, so an error here is only logged.
"""

import logging
from typing import Any
from uuid import UUID

from celery import current_app
from celery.exceptions import WorkerLostError

logger = logging.getLogger(__name__)


def store_revoked(request_id: UUID, why: str, task_request: Any = None) -> None:
    """Store that a task was revoked.

    `task_request` is Celery's, if the task still runs in this process.
    """
    try:
        current_app.backend.mark_as_revoked(str(request_id), why, request=task_request)
    except Exception:
        logger.warning("Celery's result of request %s could not be stored", request_id, exc_info=True)


def store_lost(request_id: UUID, why: str) -> None:
    """Store the failure that Celery stores when a task's process is gone."""
    try:
        current_app.backend.mark_as_failure(str(request_id), WorkerLostError(why))
    except Exception:
        logger.warning("Celery's result of request %s could not be stored", request_id, exc_info=True)
