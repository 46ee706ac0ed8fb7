"""Supervision: who goes round, and whether anything is left that a round would have ended."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Exists

from mcp_app.conf import settings
from mcp_app.diagnosis.examination import Seen
from mcp_app.diagnosis.findings import Finding, failed, ok, warning
from mcp_app.lifecycle import processes
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.processes import Vouched, heard
from mcp_app.models import Request
from mcp_app.states import OPEN, ProcessRole, Status

NAME: Final = "supervision"
ONCE: Final = "Run `python manage.py mcp supervise --once`, and have a worker or `mcp supervise` run."


def look(seen: Seen) -> Iterator[Finding]:
    """Who goes round beats its heart by the same thread; what no round has found says that none went round."""
    others = processes.vouched_for(ProcessRole.SUPERVISOR)
    alive = [process for process in (*seen.workers, *others) if process.lives]
    late = _late()
    if late:
        yield failed(NAME, f"{_who(alive)} {late}", ONCE)
    elif alive:
        yield ok(NAME, _who(alive))
    else:
        yield warning(NAME, f"{_who(alive)} Nothing is overdue.", ONCE)


def _who(alive: list[Vouched]) -> str:
    if not alive:
        return "Nobody goes round but server processes in which clients wait."
    workers = sum(process.identity.role == ProcessRole.WORKER for process in alive)
    counted = {"workers": workers, "supervisors": len(alive) - workers}
    last = max(0.0, min(process.silent_for for process in alive))
    who = " and ".join(f"{count} {what if count > 1 else what[:-1]}" for what, count in counted.items() if count)
    return f"{who} {'go' if len(alive) > 1 else 'goes'} round, last heard of {last:.1f} s ago."


def _late() -> str:
    """What should have been ended long ago; empty where nothing is left."""
    patience = 2 * settings.LOST_AFTER + 2 * settings.SUPERVISION_INTERVAL
    by_worker = Exists(heard("worker", ProcessRole.WORKER, within=patience))
    lost = Request.objects.filter(status=Status.RUNNING, worker__isnull=False).exclude(by_worker).count()
    unasked = Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=True)
    overdue = unasked.filter(deadline_at__lt=from_now(-patience)).count()
    said = []
    if lost:
        said.append(f"{lost} open {'calls are' if lost > 1 else 'call is'} of workers that are gone.")
    if overdue:
        said.append(f"{overdue} {'are' if overdue > 1 else 'is'} past the deadline by more than {patience:g} s.")
    return " ".join(said)
