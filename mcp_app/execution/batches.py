"""Calls that came in one message: each is run as the Celery task that it is, one after another or beside one another.

None waits for long behind another: the worker's main process has those that nobody has claimed published again, and a
claim lets only one message run a row. Refuses to know what a call does.
"""
# mypy: allow-untyped-calls
# kombu types a part of itself

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias
from uuid import UUID

from celery import Task
from celery.app.trace import trace_task
from kombu.utils.json import loads

from mcp_app.execution import child, reporting
from mcp_app.lifecycle import publishing, wakeups
from mcp_app.lifecycle.publishing import RUN_TASK

Traced: TypeAlias = tuple[str, str, dict[str, Any], Any, str | None, str | None]
"""What Celery's pool calls its tracer with: a task's name and id, its request, body, content type and encoding."""


def run_all(batch: Task, request_ids: Sequence[str]) -> None:
    """Run each in this process, in their order. Where it is to end in the middle, others are given what is left."""
    task, said = batch.app.tasks[RUN_TASK], dict(vars(batch.request))
    left = deque(request_ids)
    ids = {UUID(each) for each in request_ids}
    with reporting.kept_together(child.current().recorder) as results, wakeups.kept_together(ids) as hints:
        try:
            while left:
                trace_task(task, left[0], [left[0]], {}, _request(said, left[0]), app=batch.app)
                left.popleft()
                hints.tell_if_due()
                results.store_if_due()
        except BaseException:
            hints.tell()
            with suppress(Exception):  # supervision finds what nobody claims
                publishing.send_unclaimed([UUID(each) for each in left])
            raise


def each_of(batch: Traced) -> Iterator[Traced]:
    """What the tracer is called with for each by itself."""
    _, _, said, body, content_type, _ = batch
    request_ids = (loads(body) if content_type else body)[0]  # no other content type is sent
    for request_id in request_ids:
        yield RUN_TASK, request_id, _request(said, request_id), ([request_id], {}, None), None, None


def _request(said: Mapping[str, Any], request_id: str) -> dict[str, Any]:
    """What Celery says of the task of one, by what it says of that of all."""
    own = {"id": request_id, "root_id": request_id, "task": RUN_TASK, "args": [request_id]}
    # `_protected`: Celery's mark of a task that is being called, whose own call it takes for one from within.
    # `headers`: of none Celery looks for some in all the rest.
    headers = said.get("headers") or {}
    return {**said, **own, "headers": headers, "argsrepr": repr((request_id,)), "ignore_result": False, "_protected": 0}
