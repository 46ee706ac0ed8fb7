"""The rows of a stack, for tests: a process in the stack's environment that answers questions, one line of JSON each.

    {"ask": "request", "jsonrpc_id": "1"}  →  {"status": "running", …}

Reads what `Inspector` (below) asks for; writes nothing but a tool's time limit and users, as an administrator would.
"""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of the audit."""

    cause: str
    actor: str
    reason: str
    outcome: str
    stage: int
    status_before: str
    status_after: str
    latency_ms: float | None
    settled: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One request. `running_for` is in seconds of database time, `finished_at` a unix time."""

    id: str
    status: str
    stage: int
    cancel_cause: str
    cancel_actor: str
    cancel_reason: str
    killing: bool
    result: Any
    partial_result: Any
    worker: str | None
    worker_pid: int | None
    delivered: bool
    running_for: float
    finished_at: float | None
    story: list[str]
    attempts: list[Attempt]

    @property
    def ended(self) -> bool:
        return self.finished_at is not None


class Inspector:
    """The asking side."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def ask(self, question: str, **details: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": question, **details}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def row(self, **which: Any) -> Row | None:
        """The newest request with these column values."""
        found = self.ask("request", **which)
        if found is None:
            return None
        attempts = [Attempt(**attempt) for attempt in found.pop("attempts")]
        return Row(**found, attempts=attempts)

    def reap(self) -> None:
        """Wait for the end of the process, which somebody else has ended."""
        self._process.communicate()

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            assert self._process.wait(10) == 0


def _request(**which: Any) -> dict[str, Any] | None:
    from django.db.models.functions import Now

    from mcp_app.lifecycle import audit
    from mcp_app.models import Request

    row = Request.objects.filter(**which).annotate(now=Now()).order_by("-submitted_at").first()
    if row is None:
        return None
    return {
        "id": str(row.pk),
        "status": row.status,
        "stage": row.stage,
        "cancel_cause": row.cancel_cause,
        "cancel_actor": row.cancel_actor,
        "cancel_reason": row.cancel_reason,
        "killing": row.killing,
        "result": row.result,
        "partial_result": row.partial_result,
        "worker": str(row.worker) if row.worker else None,
        "worker_pid": row.worker_pid,
        "delivered": row.delivered_at is not None,
        "running_for": (row.now - row.claimed_at).total_seconds() if row.claimed_at else 0.0,
        "finished_at": row.finished_at.timestamp() if row.finished_at else None,
        "story": [event.data.get("status", event.kind) for event in row.events.all()],
        "attempts": [
            {
                "cause": attempt.cause,
                "actor": attempt.actor,
                "reason": attempt.reason,
                "outcome": attempt.outcome,
                "stage": attempt.stage,
                "status_before": attempt.status_before,
                "status_after": attempt.status_after,
                "latency_ms": attempt.latency_ms,
                "settled": attempt.settled_at is not None,
            }
            for attempt in audit.attempts(row.pk)
        ],
    }


def _requests() -> int:
    from mcp_app.models import Request

    return Request.objects.count()


def _open_requests() -> list[str]:
    from mcp_app.models import Request
    from mcp_app.states import OPEN

    return [f"{row.tool} {row.status} {row.pk}" for row in Request.objects.filter(status__in=OPEN)]


def _workers() -> dict[str, int]:
    """Boot id → main process of the workers that count as alive."""
    from mcp_app.conf import settings
    from mcp_app.lifecycle.clock import from_now
    from mcp_app.models import Process
    from mcp_app.states import ProcessRole

    alive = Process.objects.filter(
        role=ProcessRole.WORKER, stopped_at__isnull=True, heartbeat_at__gte=from_now(-settings.LOST_AFTER)
    )
    return {str(boot_id): pid for boot_id, pid in alive.values_list("boot_id", "pid")}


def _celery_status(task_id: str) -> str | None:
    from django_celery_results.models import TaskResult

    status: str | None = TaskResult.objects.filter(task_id=task_id).values_list("status", flat=True).first()
    return status


def _set_time_limit(tool: str, seconds: float | None) -> None:
    from mcp_app.models import Tool

    row = Tool.objects.get(pk=tool)
    row.time_limit = seconds
    row.save()


def _make_user(name: str, password: str, permissions: Sequence[str]) -> None:
    """A user who may enter the admin, and do there what these permissions of ours allow."""
    from django.contrib.auth.models import Permission, User

    user = User.objects.create_user(name, password=password, is_staff=True)
    granted = Permission.objects.filter(content_type__app_label="mcp_app", codename__in=permissions)
    assert granted.count() == len(permissions), f"not all of these exist: {permissions}"
    user.user_permissions.set(granted)


def _commits() -> int:
    from tests.everything.models import LockedRow

    return LockedRow.objects.get_or_create(pk=1)[0].commits


def _is_locked() -> bool:
    """Whether somebody is inside a `transaction`."""
    from django.db import OperationalError, connection, transaction

    from tests.everything.models import LockedRow

    if connection.vendor == "sqlite":
        other = sqlite3.connect(connection.settings_dict["NAME"], timeout=0, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        finally:
            other.close()
        return False
    try:
        with transaction.atomic():
            LockedRow.objects.select_for_update(nowait=True).get(pk=1)
    except OperationalError:
        return True
    return False


_ANSWERS: Final[dict[str, Callable[..., Any]]] = {
    "request": _request,
    "requests": _requests,
    "open requests": _open_requests,
    "workers": _workers,
    "celery status": _celery_status,
    "set time limit": _set_time_limit,
    "make user": _make_user,
    "commits": _commits,
    "is locked": _is_locked,
}


def main() -> None:
    import django

    django.setup()
    for line in sys.stdin:
        question = json.loads(line)
        sys.stdout.write(json.dumps(_ANSWERS[question.pop("ask")](**question)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
