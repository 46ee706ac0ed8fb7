"""Functions that run in a process of the site: they submit and cancel requests, and read how they end.

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
    """Store a call as a server process does, and publish it. Return the row's id."""
    from mcp_app.lifecycle import publishing

    stored = _stored(tool, arguments, changes)
    publishing.publish(stored)
    return str(stored.pk)


def store(tool: str, arguments: dict[str, Any], **changes: Any) -> str:
    """Store a call without a message for it. Return the row's id."""
    return str(_stored(tool, arguments, changes).pk)


def _stored(tool: str, arguments: dict[str, Any], changes: dict[str, Any]) -> Any:
    from mcp_app.auth.principal import ANONYMOUS
    from mcp_app.lifecycle.requests import transitions
    from mcp_app.lifecycle.requests.submission import Submission
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
    """Publish another message for a request, as if the broker had delivered it twice."""
    from mcp_app.lifecycle import publishing

    publishing.send(UUID(request_id), str(row(request_id)["queue"]))


def broadcast(command: str, request_ids: Any) -> None:
    """Send workers a control command, as anyone with access to the broker can."""
    from celery import current_app

    current_app.control.broadcast(command, {"request_ids": request_ids})


def consumed_queues() -> list[str]:
    """Return the queues that the workers report."""
    from celery import current_app

    answers = current_app.control.inspect(timeout=10, limit=1).active_queues() or {}
    return [queue["name"] for queues in answers.values() for queue in queues]


def is_revoked(request_id: str) -> bool:
    """Return whether a worker will drop the messages of a request."""
    from celery import current_app

    revoked = current_app.control.inspect(timeout=5, limit=1).revoked() or {}
    return any(request_id in ids for ids in revoked.values())


def celery_status(request_id: str) -> str | None:
    """Return Celery's own state of a request's task."""
    from django_celery_results.models import TaskResult

    return TaskResult.objects.values_list("status", flat=True).filter(task_id=request_id).first()


def cancel(request_id: str, reason: str = "") -> str:
    from mcp_app.lifecycle.audit.attempts import Actor
    from mcp_app.lifecycle.cancellation import cancellation
    from mcp_app.states import Cause

    outcome = cancellation.cancel(request_id, cause=Cause.CLIENT, actor=Actor("test"), reason=reason)
    return str(outcome.value)


def cancel_without_broker(request_id: str, reason: str = "") -> tuple[str, list[str]]:
    """Cancel while the broker refuses connections. Return the outcome and the log messages."""
    import logging

    from mcp_app.lifecycle import publishing
    from tests.support.brokers import URLS, celery_on, refusing_port

    publishing._silent_until = 0.0  # an earlier cancellation without a broker may have set it
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
    """Return the requests that the tool of a request has started, the oldest first."""
    from mcp_app.models import Request

    return list(Request.objects.filter(parent=request_id).order_by("submitted_at").values())


def ended(request_id: str, within: float = 20.0) -> dict[str, Any]:
    """Wait until the request has ended, and return its row."""
    from mcp_app.states import TERMINAL

    give_up_at = time.monotonic() + within
    while (found := row(request_id))["status"] not in TERMINAL:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{found['tool']} did not end: {found}")
        time.sleep(0.005)
    return found


def running(request_id: str, within: float = 20.0) -> dict[str, Any]:
    """Wait until the request runs, and return its row."""
    give_up_at = time.monotonic() + within
    while (found := row(request_id))["status"] == "queued":
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{found['tool']} was not claimed: {found}")
        time.sleep(0.005)
    return found


def asking(request_id: str, within: float = 30.0) -> dict[str, Any]:
    """Wait until the request asks, and return its questions."""
    give_up_at = time.monotonic() + within
    while (found := row(request_id))["status"] != "input_required":
        if time.monotonic() > give_up_at or found["finished_at"] is not None:
            raise TimeoutError(f"{found['tool']} does not ask: {found}")
        time.sleep(0.005)
    questions: dict[str, Any] = found["questions"]
    return questions


def answer(request_id: str, answers: dict[str, Any]) -> None:
    """Answer a request's questions and publish it again, as a server process does."""
    from mcp_app.lifecycle import publishing
    from mcp_app.lifecycle.input import input_rounds

    found = row(request_id)
    retry = input_rounds.Retry(jsonrpc_id=2, client_capabilities=found["client_capabilities"])
    answered = input_rounds.answer(found["id"], found["input_round"], answers, {}, retry)
    assert answered is not None
    publishing.publish(answered)


def visit(request_id: str, key: str, value: Any) -> None:
    """Complete the page to which a request sends its user."""
    from mcp_app.lifecycle.input import visits

    assert visits.finish(UUID(request_id), key, value)


def events(request_id: str) -> list[tuple[str, dict[str, Any]]]:
    from mcp_app.models import RequestEvent

    return list(RequestEvent.objects.filter(request=request_id).order_by("seq").values_list("kind", "data"))


def attempts(request_id: str) -> list[dict[str, Any]]:
    from mcp_app.models import Cancellation

    return list(Cancellation.objects.filter(request_id=request_id).order_by("pk").values())


def workers() -> list[tuple[str, int]]:
    """Return the boot id and main process of every live worker, by its own report."""
    from mcp_app.models import Process

    found = Process.objects.filter(role="worker", stopped_at__isnull=True).order_by("started_at")
    return [(str(UUID(str(boot_id))), pid) for boot_id, pid in found.values_list("boot_id", "pid")]


def change_tool(name: str, **values: Any) -> None:
    """Change a tool as an administrator does."""
    from mcp_app.catalogue import tool_rows

    tool_rows.sync()
    tool_rows.change([name], **values)


def sql(alias: str, query: str) -> list[tuple[Any, ...]]:
    """Run one SQL statement on one of the site's databases. Return the rows."""
    from django.db import connections

    with connections[alias].cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def make_user(name: str, *codenames: str) -> str:
    """Create a user with these permissions. Return its primary key."""
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
    """Cancel all calls of a tool in one act, as the admin does."""
    from mcp_app.lifecycle.audit.attempts import Actor
    from mcp_app.lifecycle.cancellation import groups
    from mcp_app.states import Cause

    groups.cancel(groups.of_tool(tool), cause=Cause.ADMIN, actor=Actor("test"), reason="")


def statuses(request_ids: list[str]) -> dict[str, int]:
    """Return the number of requests by status."""
    from collections import Counter

    from mcp_app.models import Request

    return dict(Counter(Request.objects.filter(pk__in=request_ids).values_list("status", flat=True)))


def ends(request_ids: list[str]) -> dict[tuple[str, str], int]:
    """Return the number of requests by status and cause."""
    from collections import Counter

    from mcp_app.models import Request

    return dict(Counter(Request.objects.filter(pk__in=request_ids).values_list("status", "cancel_cause")))
