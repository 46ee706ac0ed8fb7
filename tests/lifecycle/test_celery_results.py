"""Celery's own result of a run is what its backend would store, though that is asked once for all that are alike."""

import json
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app, states
from django_celery_results.backends.database import DatabaseBackend
from django_celery_results.models import TaskResult

from mcp_app.lifecycle import celery_results, transitions
from mcp_app.states import ProcessRole, Status
from tests.lifecycle import rows

_TIMES = {"date_created", "date_started", "date_done"}


def _task(**request: Any) -> Any:
    task_id = str(uuid4())
    said = {
        "id": task_id,
        "task": "mcp_app.run",
        "argsrepr": f"('{task_id}',)",
        "kwargsrepr": "{}",
        "args": [task_id],
        "kwargs": {},
        "hostname": "worker@here",
        "children": [],
        "chord": None,
        **request,
    }
    backend = DatabaseBackend(app=current_app)
    return SimpleNamespace(app=current_app._get_current_object(), backend=backend, request=SimpleNamespace(**said))


def _by_the_backend(task: Any, returned: str) -> dict[str, Any]:
    task.backend.store_result(task.request.id, returned, states.SUCCESS, request=task.request)
    return _stored(task)


def _stored(task: Any) -> dict[str, Any]:
    stored = TaskResult.objects.get(task_id=task.request.id)
    stored.delete()
    return _compared(stored)


def _compared(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _names() - _TIMES - {"id"}}


def _told(result: celery_results.Result | None) -> dict[str, Any]:
    """What it would store."""
    assert result is not None
    names = [field.attname for field in celery_results.beside(TaskResult).fields]
    stored = dict(zip(names, result.stored().values, strict=True))
    assert stored["date_done"] is not None
    return {name: stored[name] for name in _names() - _TIMES - {"id"}}


def _names() -> set[str]:
    return {field.attname for field in TaskResult._meta.fields}


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_results, "_kept", {})


def test_each_result_is_what_the_backend_would_store():
    for returned in ("completed", "failed", "completed"):
        task = _task()
        result = celery_results.of_success(task, returned)
        assert _told(result) == _by_the_backend(task, returned)
    assert len(celery_results._kept) == 2


@pytest.mark.parametrize(
    "other",
    [{"hostname": "worker@there"}, {"kwargsrepr": "{'a': 1}"}, {"periodic_task_name": "nightly"}, {"meta": {"a": 1}}],
    ids=lambda other: next(iter(other)),
)
def test_one_that_differs_is_not_taken_for_another(other: dict[str, Any]):
    celery_results.of_success(_task(), "completed")
    task = _task(**other)
    result = celery_results.of_success(task, "completed")
    assert _told(result) == _by_the_backend(task, "completed")


def test_what_is_no_text_is_asked_for_each(monkeypatch: pytest.MonkeyPatch):
    for _ in range(2):
        task = _task()
        monkeypatch.setattr(
            DatabaseBackend, "_encode", lambda self, data: ("application/x", "binary", repr(data).encode())
        )
        result = celery_results.of_success(task, "completed")
        assert _told(result) == _by_the_backend(task, "completed")
    assert celery_results._kept == {}


WHY = "client: enough, says the user"


@pytest.mark.parametrize("there_before", [False, True])
def test_that_a_run_was_stopped_is_stored_as_the_backend_would(there_before: bool):
    task = _task()
    found = []
    for store in (_by_celery, celery_results.store_stopped):
        if there_before:
            task.backend.store_result(task.request.id, None, states.STARTED, request=task.request)
        store(task, WHY)
        found.append(_stored(task))
    assert found[0] == found[1]
    assert found[1]["status"] == states.REVOKED
    assert WHY in found[1]["result"]
    assert task.request.ignore_result


def _by_celery(task: Any, why: str) -> None:
    task.backend.mark_as_revoked(task.request.id, why, request=task.request, store_result=True)


def test_where_another_backend_stores_results_it_is_asked_that_a_run_was_stopped():
    told = []
    task = _task()
    task.backend = SimpleNamespace(mark_as_revoked=lambda task_id, why, **options: told.append((task_id, why)))
    celery_results.store_stopped(task, WHY)
    assert told == [(task.request.id, WHY)]
    assert task.request.ignore_result


def test_reasons_to_stop_take_no_place_of_results():
    celery_results.store_stopped(_task(), WHY)
    assert celery_results._kept == {}


def test_results_that_are_stored_together_are_each_what_the_backend_would_store():
    tasks = [_task() for _ in range(3)]
    tasks[1].backend.store_result(tasks[1].request.id, None, states.STARTED, request=tasks[1].request)
    results = [celery_results.of_success(task, "completed") for task in tasks]
    celery_results.store_all([result.stored() for result in results if result is not None])
    for task in tasks:
        assert _stored(task) == _by_the_backend(task, "completed")


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_what_is_missing_is_stored_for_ended_runs_alone_and_over_nothing():
    worker = rows.alive(ProcessRole.WORKER)
    completed, failed, raised, runs = (rows.running(worker) for _ in range(4))
    waits, cancelled = rows.queued(), rows.queued()
    rows.cancel(cancelled)
    for row, status in ((completed, Status.COMPLETED), (failed, Status.FAILED), (raised, Status.FAILED)):
        assert transitions.end_run(row, status, result=rows.RESULT)
    current_app.backend.mark_as_failure(str(raised.pk), ValueError("as it was"))
    celery_results.store_missing([row.pk for row in (completed, failed, raised, runs, waits, cancelled)])
    stored = {each.task_id: (each.status, json.loads(each.result)) for each in TaskResult.objects.all()}
    assert stored.pop(str(raised.pk))[0] == states.FAILURE
    assert stored == {
        str(completed.pk): (states.SUCCESS, "completed"),
        str(failed.pk): (states.SUCCESS, "failed"),
    }


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_result_that_was_stored_meanwhile_stays(monkeypatch: pytest.MonkeyPatch):
    row = rows.running(rows.alive(ProcessRole.WORKER))
    assert transitions.end_run(row, Status.FAILED, result=rows.RESULT)
    add = celery_results._add

    def late(*args: Any) -> None:
        current_app.backend.mark_as_failure(str(row.pk), ValueError("as it was"))
        add(*args)

    monkeypatch.setattr(celery_results, "_add", late)
    celery_results.store_missing([row.pk])
    assert TaskResult.objects.get(task_id=str(row.pk)).status == states.FAILURE


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_nothing_is_missing_where_results_are_stored_elsewhere(monkeypatch: pytest.MonkeyPatch):
    row = rows.running(rows.alive(ProcessRole.WORKER))
    assert transitions.end_run(row, Status.COMPLETED, result=rows.RESULT)
    monkeypatch.setattr(celery_results, "_stored_by", lambda database: None)
    celery_results.store_missing([row.pk])
    assert not TaskResult.objects.exists()
