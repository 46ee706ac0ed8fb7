"""Check supervision: which processes carry it out, and whether requests are overdue."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Exists

from mcp_app.conf import settings
from mcp_app.diagnosis.examination import Finding, SharedFacts, failed, ok, warning
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import KnownProcess, recently_alive
from mcp_app.models import Request
from mcp_app.states import OPEN, ProcessRole, Status

NAME: Final = "supervision"
ONCE: Final = "Run `python manage.py mcp supervise --once`, and keep a worker or `mcp supervise` running."


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check supervision, by two signs.

    Workers and supervisors write their heartbeats in the thread that supervises. And if a request
    is overdue, no round has taken place.
    """
    others = processes.vouched_for(ProcessRole.SUPERVISOR)
    alive = [process for process in (*shared.workers, *others) if process.lives]
    late = _find_overdue()
    if late:
        yield failed(NAME, f"{_describe_alive(alive)} {late}", ONCE)
    elif alive:
        yield ok(NAME, _describe_alive(alive))
    else:
        yield warning(NAME, f"{_describe_alive(alive)} Nothing is overdue.", ONCE)


def _describe_alive(alive: list[KnownProcess]) -> str:
    if not alive:
        return "No worker or supervisor is alive; only server processes with waiting clients run supervision."
    workers = sum(process.identity.role == ProcessRole.WORKER for process in alive)
    counted = {"workers": workers, "supervisors": len(alive) - workers}
    last = max(0.0, min(process.silent_for for process in alive))
    counts = " and ".join(f"{count} {what if count > 1 else what[:-1]}" for what, count in counted.items() if count)
    return f"Supervision runs in {counts}, last heartbeat {last:.1f} s ago."


def _find_overdue() -> str:
    """Describe the requests that a round should have ended long ago. Empty if there are none."""
    patience = 2 * settings.LOST_AFTER + 2 * settings.SUPERVISION_INTERVAL
    by_worker = Exists(recently_alive("worker", ProcessRole.WORKER, within=patience))
    lost = Request.objects.filter(status=Status.RUNNING, worker__isnull=False).exclude(by_worker).count()
    unasked = Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=True)
    overdue = unasked.filter(deadline_at__lt=from_now(-patience)).count()
    sentences = []
    if lost:
        sentences.append(f"{lost} running {'calls belong' if lost > 1 else 'call belongs'} to workers that are gone.")
    if overdue:
        sentences.append(
            f"{overdue} open {'requests' if overdue > 1 else 'request'} passed the deadline more than "
            f"{patience:g} s ago."
        )
    return " ".join(sentences)
