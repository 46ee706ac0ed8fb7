"""Celery's own result of a run: what is stored with the run's end, or where it ended without its task.

For people alone: the row is the truth, and nobody waits for what is written here. Refuses to raise.
"""

import logging
import threading
import uuid
from functools import cache
from typing import Any, Final
from uuid import UUID

from celery import Task, current_app, states
from celery.exceptions import WorkerLostError
from django.apps import apps
from django.db import router
from django.db.models import Model

from mcp_app.conf import settings

logger = logging.getLogger(__name__)

MOST_KEPT: Final = 64
_ID: Final = str(uuid.uuid4())
"""Stands where a result has its task's id."""
_SAID: Final = (
    "task",
    "argsrepr",
    "kwargsrepr",
    "args",
    "kwargs",
    "hostname",
    "periodic_task_name",
    "meta",
    "children",
)
"""What the backend takes of a task's request, its id aside."""
_kept: dict[tuple[Any, ...], dict[str, Any]] = {}


class _Caught(threading.local):
    """Where django-celery-results would store a result: keeps the columns it would store."""

    columns: dict[str, Any]

    @property
    def _default_manager(self) -> "_Caught":
        return self

    def store_result(self, *, using: str | None = None, **columns: Any) -> None:
        self.columns = columns


def of_success(task: Task, returned: str) -> Model | None:
    """The result that is stored of a task which returns `returned`, as a row that is not stored yet.

    None where it is not django-celery-results that stores it, or not in the database of the requests.
    """
    try:
        if not apps.is_installed("django_celery_results"):
            return None
        from django_celery_results.backends.database import DatabaseBackend

        model = apps.get_model("django_celery_results", "TaskResult")
        if type(task.backend) is not DatabaseBackend or router.db_for_write(model) != settings.DATABASE:
            return None
        result: Model = model(**_columns(task, returned))
        return result
    except Exception:
        logger.warning("Celery's result of request %s is stored by itself", task.request.id, exc_info=True)
        return None


def _columns(task: Task, returned: str) -> dict[str, Any]:
    """What the backend would store; of results that differ by the task's id alone it is asked once."""
    request, own_id = task.request, task.request.id
    said = [getattr(request, name, None) for name in _SAID]
    key = (task.app, returned, *(_without(own_id, repr(each)) for each in said))
    if (columns := _kept.get(key)) is None:
        backend, caught = _catching(task.app)
        backend.store_result(own_id, returned, states.SUCCESS, request=request)
        columns = {name: _without(own_id, value) for name, value in caught.columns.items()}
        # In what is no text an id cannot be told.
        if len(_kept) < MOST_KEPT and columns["content_encoding"] == "utf-8":
            _kept[key] = columns
    return {name: value.replace(_ID, own_id) if type(value) is str else value for name, value in columns.items()}


def _without(own_id: str, value: Any) -> Any:
    return value.replace(own_id, _ID) if isinstance(value, str) else value


@cache
def _catching(app: Any) -> tuple[Any, _Caught]:
    from django_celery_results.backends.database import DatabaseBackend

    made, caught = DatabaseBackend(app=app), _Caught()
    made.TaskModel = caught
    return made, caught


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
