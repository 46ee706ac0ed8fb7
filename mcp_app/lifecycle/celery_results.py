"""Celery's own result of a run: what is stored with its end, with those of others, or where it ended without a task.

For people alone: the row is the truth, and nobody waits for what is written here.
"""

import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from celery import Task, current_app, states
from celery.exceptions import TaskRevokedError, WorkerLostError
from django.apps import apps
from django.db import router
from django.db.models import DateTimeField, Field, Model
from django.utils import timezone

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import columns
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.statements import Beside
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

MOST_KEPT: Final = 64
KEY: Final = "task_id"
LEFT: Final = frozenset({"date_created", "date_started"})
"""The columns that are left as they are in a row that was there."""
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


class StoredResult(NamedTuple):
    """A result as it is stored: its model and the values of its columns."""

    model: type[Model]
    values: tuple[Any, ...]


class _Form(NamedTuple):
    """What results that are alike have in common."""

    model: type[Model]
    values: tuple[Any, ...]
    ids: Sequence[int]
    """The places of values that have `_ID` in them."""
    times: Sequence[int]
    """Those of the time at which a result is stored."""


_kept: dict[tuple[Any, ...], _Form] = {}


class Result(NamedTuple):
    """Celery's own result of a task, not stored yet."""

    form: _Form
    task_id: str

    def stored(self) -> StoredResult:
        """The same as it is stored at this moment."""
        values = list(self.form.values)
        for place in self.form.ids:
            values[place] = values[place].replace(_ID, self.task_id)
        now = databases.connection().ops.adapt_datetimefield_value(timezone.now())
        for place in self.form.times:
            values[place] = now
        return StoredResult(self.form.model, tuple(values))


class _Caught(threading.local):
    """Where django-celery-results would store a result: keeps the columns it would store."""

    columns: dict[str, Any]

    @property
    def _default_manager(self) -> "_Caught":
        return self

    def store_result(self, *, using: str | None = None, **columns: Any) -> None:
        self.columns = columns


@cache
def beside(model: type[Model]) -> Beside:
    """How a result is written, over the one that is there."""
    return Beside(model, KEY, LEFT)


def of_success(task: Task, returned: str) -> Result | None:
    """The result that is stored of a task which returns `returned`.

    None where it is not django-celery-results that stores it, or not in the database of the requests.
    """
    return _made(task, returned, states.SUCCESS)


def store_stopped(task: Task, why: str) -> None:
    """Store that a task was stopped; Celery is not to store what it returns."""
    try:
        if (result := _made(task, TaskRevokedError(why), states.REVOKED)) is not None:
            store_all([result.stored()])
        else:
            task.backend.mark_as_revoked(task.request.id, why, request=task.request, store_result=True)
    except Exception:
        logger.warning("Celery's result of request %s is as it was", task.request.id, exc_info=True)
    task.request.ignore_result = True  # Celery looks at this as it is about to store the result


@transactional
def store_all(results: Sequence[StoredResult]) -> None:
    """Store results over those that are there, in one transaction. Raises django.db.Error."""
    [model] = {model for model, _ in results}
    beside(model).store([values for _, values in results])


def store_missing(request_ids: Sequence[UUID]) -> None:
    """Store a result for those of these whose runs have come to their ends and which have none.

    What was to store them together has not come to it, or will not. Where it does after all, it knows more.
    """
    try:
        if (model := _model(current_app.backend)) is None:
            return
        stored = model._default_manager.filter(task_id__in=map(str, request_ids)).values_list(KEY, flat=True)
        missing = set(request_ids) - {UUID(each) for each in stored}
        ended = Request.objects.filter(pk__in=missing, status__in=(Status.COMPLETED, Status.FAILED))
        backend, caught = _catching(current_app._get_current_object())
        rows = []
        for request_id, status in ended.values_list("pk", "status"):
            backend.store_result(str(request_id), status, states.SUCCESS)
            rows.append(columns.as_stored(model, _full(model, caught.columns), settings.DATABASE))
        if rows:
            _add(model, rows)
    except Exception:
        logger.warning("Celery's results of %d requests are as they were", len(request_ids), exc_info=True)


@transactional
def _add(model: type[Model], rows: Sequence[Model]) -> None:
    """Over none that is there: it was stored meanwhile."""
    model._default_manager.bulk_create(rows, ignore_conflicts=True)


def _made(task: Task, result: Any, state: str) -> Result | None:
    try:
        if (model := _model(task.backend)) is None:
            return None
        return Result(_form(model, task, result, state), task.request.id)
    except Exception:
        logger.warning("Celery's result of request %s is stored by itself", task.request.id, exc_info=True)
        return None


def _model(backend: Any) -> type[Model] | None:
    """That of the results, where they are django-celery-results', in the database of the requests."""
    stored_by = _stored_by(settings.DATABASE)
    return stored_by[1] if stored_by is not None and type(backend) is stored_by[0] else None


@cache
def _stored_by(database: str) -> tuple[type, type[Model]] | None:
    """The backend that stores results in this database, and their model."""
    if "django_celery_results" not in apps.app_configs:
        return None
    from django_celery_results.backends.database import DatabaseBackend

    model: type[Model] = apps.get_model("django_celery_results", "TaskResult")
    return (DatabaseBackend, model) if router.db_for_write(model) == database else None


@cache
def _defaults(model: type[Model]) -> dict[str, Any]:
    return {field.attname: field.get_default() for field in model._meta.concrete_fields}


def _form(model: type[Model], task: Task, result: Any, state: str) -> _Form:
    """What the backend would store; of results that differ by the task's id alone it is asked once."""
    request, own_id = task.request, task.request.id
    said = repr([result, *(getattr(request, name, None) for name in _SAID)])
    key = (task.app, state, said.replace(own_id, _ID))
    if (form := _kept.get(key)) is None:
        backend, caught = _catching(task.app)
        backend.store_result(own_id, result, state, request=request)
        form = _form_of(model, caught.columns, own_id)
        # In what is no text an id cannot be told; of stops hardly two are alike.
        is_kept = state == states.SUCCESS and caught.columns["content_encoding"] == "utf-8"
        if is_kept and len(_kept) < MOST_KEPT:
            _kept[key] = form
    return form


def _form_of(model: type[Model], said: Mapping[str, Any], own_id: str) -> _Form:
    row = beside(model)
    values = [each.replace(own_id, _ID) if isinstance(each, str) else each for each in row.values(_full(model, said))]
    ids = [place for place, each in enumerate(values) if isinstance(each, str) and _ID in each]
    times = [place for place, field in enumerate(row.fields) if _is_of_the_moment(field)]
    return _Form(model, tuple(values), ids, times)


def _is_of_the_moment(field: "Field[Any, Any]") -> bool:
    return isinstance(field, DateTimeField) and (field.auto_now or field.auto_now_add)


def _full(model: type[Model], said: Mapping[str, Any]) -> dict[str, Any]:
    """All attributes of a row of which so many are said."""
    return {**_defaults(model), **said}


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
