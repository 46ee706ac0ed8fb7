"""Reads whether the worker of an open call, or any worker of the site, is alive.

The rows of processes decide, in database time. The transport sends the result to clients as heartbeats.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from django.db.models import Exists

from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import recently_alive
from mcp_app.models import Process, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import OPEN, ProcessRole, Status

SITE: Final = "site"
Patient = UUID | Literal["site"]
"""A request, or the site as a whole."""

WorkerSign = Literal["none", "alive", "silent"]
"""No worker runs the call; its worker has a recent heartbeat; or it has none for half of `LOST_AFTER`."""


class Signs(Protocol):
    """The state of a call or of the site."""

    @property
    def worker(self) -> WorkerSign:
        """Whether a worker is alive."""

    @property
    def data(self) -> dict[str, Any]:
        """The `data` of the log message."""


@dataclass(frozen=True, slots=True)
class CallSigns:
    """The state of an open call."""

    jsonrpc_id: str | int
    status: Status
    worker: WorkerSign
    elapsed: float
    """Seconds since it was submitted."""

    @property
    def data(self) -> dict[str, Any]:
        return {
            "requestId": self.jsonrpc_id,
            "status": self.status.value,
            "worker": self.worker,
            "elapsedSeconds": round(self.elapsed, 1),
        }


@dataclass(frozen=True, slots=True)
class SiteSigns:
    """The state of the site: whether any worker is alive."""

    worker: WorkerSign

    @property
    def data(self) -> dict[str, Any]:
        return {"worker": self.worker}


@dataclass(frozen=True, slots=True)
class ProcessSigns:
    """A server or worker process according to its row. `seconds` is the age of its heartbeat."""

    hostname: str
    pid: int
    seconds: float
    has_stopped: bool

    @property
    def is_silent(self) -> bool:
        """Whether it has stopped or has no heartbeat for half of `LOST_AFTER`, as in a call's heartbeat."""
        return self.has_stopped or abs(self.seconds) > float(settings.LOST_AFTER) / 2


def of_processes(boot_ids: Collection[UUID]) -> dict[UUID, ProcessSigns]:
    """Return the known processes, with one query. Long dead processes are unknown. Raises `django.db.Error`."""
    if not boot_ids:
        return {}
    rows = Process.objects.filter(pk__in=boot_ids).annotate(now=Now())
    return {
        row.pk: ProcessSigns(
            row.hostname, row.pid, (row.now - row.heartbeat_at).total_seconds(), row.stopped_at is not None
        )
        for row in rows
    }


def read(patients: Collection[Patient]) -> dict[Patient, Signs]:
    """Return the state of the site and of those calls that are open, with one query each."""
    calls = [patient for patient in patients if isinstance(patient, UUID)]
    found = _of_calls(calls) if calls else {}
    if SITE in patients:
        found[SITE] = SiteSigns("alive" if processes.any_alive(ProcessRole.WORKER) else "none")
    return found


def _of_calls(request_ids: Collection[UUID]) -> dict[Patient, Signs]:
    worker_heard = Exists(recently_alive("worker", ProcessRole.WORKER, within=settings.LOST_AFTER / 2))
    rows = Request.objects.filter(pk__in=request_ids, status__in=OPEN).annotate(now=Now(), heard=worker_heard)
    found = rows.values_list("pk", "jsonrpc_id", "status", "heard", "submitted_at", "now")
    return {
        pk: CallSigns(jsonrpc_id, Status(status), _worker(status, is_heard), (now - submitted_at).total_seconds())
        for pk, jsonrpc_id, status, is_heard, submitted_at, now in found
    }


def _worker(status: str, is_heard: bool) -> WorkerSign:
    if status != Status.RUNNING:
        return "none"
    return "alive" if is_heard else "silent"
