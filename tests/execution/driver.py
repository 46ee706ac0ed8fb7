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
    from mcp_app.auth.principal import ANONYMOUS
    from mcp_app.lifecycle import publishing, transitions
    from mcp_app.states import CancelPolicy

    row = transitions.submit(
        transitions.Submission(
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
    publishing.publish(row)
    return str(row.pk)


def cancel(request_id: str, reason: str = "") -> str:
    from mcp_app.lifecycle import cancellation
    from mcp_app.lifecycle.audit import Actor
    from mcp_app.states import Cause

    outcome = cancellation.cancel(request_id, cause=Cause.CLIENT, actor=Actor("test"), reason=reason)
    return str(outcome.value)


def row(request_id: str) -> dict[str, Any]:
    from mcp_app.models import Request
    from mcp_app.states import Stage

    found = Request.objects.filter(pk=request_id).values().get()
    return {**found, "stage": Stage(found["stage"]).name.lower()}


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
