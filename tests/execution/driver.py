"""What a test asks of a site's rows, run in a process of the site: requests in, cancellations, and how they end.

Every function is called by `Site.ask` in the driver process, and takes and returns plain values.
"""

import os
import time
from typing import Any
from uuid import UUID

import django


def prepare(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    django.setup()


def migrate() -> None:
    from django.core.management import call_command
    from django.db import connections

    for alias in connections:
        call_command("migrate", database=alias, interactive=False, verbosity=0)


def submit(tool: str, arguments: dict[str, Any], **changes: Any) -> str:
    """Store a call as a server does and hand it to Celery; the row's id."""
    from mcp_app.lifecycle import publishing

    stored = _stored(tool, arguments, changes)
    publishing.publish(stored)
    return str(stored.pk)


def submit_batch(calls: list[tuple[str, dict[str, Any]]], **changes: Any) -> list[str]:
    """The same of several calls, in one message."""
    from celery import current_app

    from mcp_app.lifecycle.publishing import RUN_BATCH_TASK

    request_ids = [str(_stored(tool, arguments, changes).pk) for tool, arguments in calls]
    current_app.send_task(RUN_BATCH_TASK, request_ids, queue="mcp", ignore_result=True)
    return request_ids


def _stored(tool: str, arguments: dict[str, Any], changes: dict[str, Any]) -> Any:
    from mcp_app.auth.principal import ANONYMOUS
    from mcp_app.lifecycle import transitions
    from mcp_app.lifecycle.submission import Submission
    from mcp_app.states import CancelPolicy

    return transitions.submit(
        Submission(
            **{
                "jsonrpc_id": 1,
                "tool": tool,
                "arguments": arguments,
                "protocol_version": "2026-07-28",
                "principal": ANONYMOUS,
                "cancel_policy": CancelPolicy.INTERRUPT,
                "cooperative_grace": 0.0,
                "hard_grace": 0.5,
                "time_limit": 120.0,
                "queue": "mcp",
            }
            | changes
        )
    )


def publish_again(request_id: str) -> None:
    """Give Celery another message for a request, as a broker may that delivers twice."""
    from mcp_app.lifecycle import publishing

    publishing.send(UUID(request_id), str(row(request_id)["queue"]))


def celery_result(request_id: str) -> dict[str, Any]:
    """What Celery itself keeps of a request's task, but for its times and its id."""
    from django_celery_results.models import TaskResult

    found = TaskResult.objects.filter(task_id=request_id).values().get()
    own = ("id", "task_id", "date_created", "date_started", "date_done")
    said = {name: value for name, value in found.items() if name not in own}
    return {name: str(value).replace(request_id, "ID") for name, value in said.items()}


def batch_results() -> int:
    """How many messages of several calls Celery keeps a result of."""
    from django_celery_results.models import TaskResult

    from mcp_app.lifecycle.publishing import RUN_BATCH_TASK

    return TaskResult.objects.filter(task_name=RUN_BATCH_TASK).count()


def celery_status(request_id: str) -> str | None:
    """Celery's own state of a request's task."""
    from django_celery_results.models import TaskResult

    return TaskResult.objects.values_list("status", flat=True).filter(task_id=request_id).first()


def cancel(request_id: str, reason: str = "") -> str:
    from mcp_app.lifecycle import cancellation
    from mcp_app.lifecycle.audit import Actor
    from mcp_app.states import Cause

    outcome = cancellation.cancel(request_id, cause=Cause.CLIENT, actor=Actor("test"), reason=reason)
    return str(outcome.value)


def cancel_without_broker(request_id: str, reason: str = "") -> tuple[str, list[str]]:
    """As `cancel`, while the broker takes no connection; and what was logged of that."""
    import logging

    from mcp_app.lifecycle import publishing
    from tests.lifecycle.brokers import URLS, celery_on, refusing_port

    publishing._speechless_until = 0.0  # by an earlier cancellation without one
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("mcp_app.lifecycle.publishing")
    logger.addHandler(handler)
    try:
        with refusing_port() as port, celery_on(URLS["amqp"].format(port=port)):
            return cancel(request_id, reason), logged
    finally:
        logger.removeHandler(handler)


def row(request_id: str) -> dict[str, Any]:
    from mcp_app.models import Request
    from mcp_app.states import Stage

    found = Request.objects.filter(pk=request_id).values().get()
    return {**found, "stage": Stage(found["stage"]).name.lower()}


def children(request_id: str) -> list[dict[str, Any]]:
    """What the tool of a request has started, the oldest first."""
    from mcp_app.models import Request

    return list(Request.objects.filter(parent=request_id).order_by("submitted_at").values())


def ended(request_id: str, within: float = 20.0) -> dict[str, Any]:
    """The row once it has ended."""
    from mcp_app.states import TERMINAL

    give_up_at = time.monotonic() + within
    while (found := row(request_id))["status"] not in TERMINAL:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{found['tool']} did not end: {found}")
        time.sleep(0.005)
    return found


def running(request_id: str, within: float = 20.0) -> dict[str, Any]:
    """The row once it runs."""
    give_up_at = time.monotonic() + within
    while (found := row(request_id))["status"] == "queued":
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{found['tool']} was not claimed: {found}")
        time.sleep(0.005)
    return found


def asking(request_id: str, within: float = 30.0) -> dict[str, Any]:
    """What is asked, once the request asks."""
    give_up_at = time.monotonic() + within
    while (found := row(request_id))["status"] != "input_required":
        if time.monotonic() > give_up_at or found["finished_at"] is not None:
            raise TimeoutError(f"{found['tool']} does not ask: {found}")
        time.sleep(0.005)
    questions: dict[str, Any] = found["questions"]
    return questions


def answer(request_id: str, answers: dict[str, Any]) -> None:
    """Answer what a request asks, and hand it to Celery again, as a server does."""
    from mcp_app.lifecycle import input_rounds, publishing

    found = row(request_id)
    retry = input_rounds.Retry(jsonrpc_id=2, client_capabilities=found["client_capabilities"])
    answered = input_rounds.answer(found["id"], found["input_round"], answers, {}, retry)
    assert answered is not None
    publishing.publish(answered)


def visit(request_id: str, key: str, value: Any) -> None:
    """Complete the page that a request sends its user to."""
    from mcp_app.lifecycle import visits

    assert visits.finish(UUID(request_id), key, value)


def events(request_id: str) -> list[tuple[str, dict[str, Any]]]:
    from mcp_app.models import RequestEvent

    return list(RequestEvent.objects.filter(request=request_id).order_by("seq").values_list("kind", "data"))


def attempts(request_id: str) -> list[dict[str, Any]]:
    from mcp_app.models import Cancellation

    return list(Cancellation.objects.filter(request_id=request_id).order_by("pk").values())


def workers() -> list[tuple[str, int]]:
    """The boot id and main process of every worker that lives, by its word."""
    from mcp_app.models import Process

    found = Process.objects.filter(role="worker", stopped_at__isnull=True).order_by("started_at")
    return [(str(UUID(str(boot_id))), pid) for boot_id, pid in found.values_list("boot_id", "pid")]


def change_tool(name: str, **values: Any) -> None:
    """What an administrator changes."""
    from mcp_app.catalogue import rows

    rows.sync()
    rows.change([name], **values)


def sql(alias: str, query: str) -> list[tuple[Any, ...]]:
    """Run one statement of the site's own on one of its databases; the rows it returns."""
    from django.db import connections

    with connections[alias].cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def make_user(name: str, *codenames: str) -> str:
    """A user with these permissions; its key."""
    from django.contrib.auth.models import Permission, User

    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return str(user.pk)


def take_permissions(user_id: str) -> None:
    from django.contrib.auth.models import User

    User.objects.get(pk=user_id).user_permissions.clear()


def submit_many(calls: int, tool: str, arguments: dict[str, Any], **changes: Any) -> list[str]:
    return [submit(tool, arguments, **changes) for _ in range(calls)]


def cancel_many(request_ids: list[str]) -> None:
    for request_id in request_ids:
        cancel(request_id)


def cancel_of_tool(tool: str) -> None:
    """In one act, as the admin does."""
    from mcp_app.lifecycle import groups
    from mcp_app.lifecycle.audit import Actor
    from mcp_app.states import Cause

    groups.cancel(groups.of_tool(tool), cause=Cause.ADMIN, actor=Actor("test"), reason="")


def statuses(request_ids: list[str]) -> dict[str, int]:
    """How many of them are where."""
    from collections import Counter

    from mcp_app.models import Request

    return dict(Counter(Request.objects.filter(pk__in=request_ids).values_list("status", flat=True)))


def ends(request_ids: list[str]) -> dict[tuple[str, str], int]:
    """How many of them ended as what, by which cause."""
    from collections import Counter

    from mcp_app.models import Request

    return dict(Counter(Request.objects.filter(pk__in=request_ids).values_list("status", "cancel_cause")))
