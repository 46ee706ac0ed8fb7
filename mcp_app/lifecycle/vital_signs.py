"""Whether anybody is at work, on an open call or on the site at all: what a heartbeat says. Reading only.

Liveness rows decide, in database time: of a call, that of its worker; of the site, those of all workers. Refuses to
know when it is said and to whom: that is the transport's, on a call's own stream as on a connection.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from django.db.models import Exists
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle import processes
from mcp_app.lifecycle.processes import heard
from mcp_app.models import Process, Request
from mcp_app.states import OPEN, ProcessRole, Status

SITE: Final = "site"
Patient = UUID | Literal["site"]
"""Whose signs are read: a call's, by its request, or the site's."""

WorkerSign = Literal["none", "alive", "silent"]
"""No worker has it (yet); one has, and was heard of lately; one has, and half of `LOST_AFTER` has passed without."""


class Signs(Protocol):
    """What was found when it was looked at."""

    @property
    def worker(self) -> WorkerSign:
        """Whether a worker is there."""

    @property
    def data(self) -> dict[str, Any]:
        """As the `data` of a log message."""


@dataclass(frozen=True, slots=True)
class CallSigns:
    """One open call."""

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
    """The site, whose rows could be read: `worker` says whether any worker lives."""

    worker: WorkerSign

    @property
    def data(self) -> dict[str, Any]:
        return {"worker": self.worker}


@dataclass(frozen=True, slots=True)
class ProcessSigns:
    """A server or worker process, by its liveness row. `seconds` since it was heard of."""

    hostname: str
    pid: int
    seconds: float
    has_stopped: bool

    @property
    def is_silent(self) -> bool:
        """As long as a call's heartbeat calls its worker silent; what was heard in the future is no word of now."""
        return self.has_stopped or abs(self.seconds) > float(settings.LOST_AFTER) / 2


def of_processes(boot_ids: Collection[UUID]) -> dict[UUID, ProcessSigns]:
    """The signs of those that are known, by one query; a process that died long ago is not. Raises django.db.Error."""
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
    """The signs of the site, if it is among them, and of those of the calls that are open, by one query each."""
    calls = [patient for patient in patients if isinstance(patient, UUID)]
    found = _of_calls(calls) if calls else {}
    if SITE in patients:
        found[SITE] = SiteSigns("alive" if processes.any_alive(ProcessRole.WORKER) else "none")
    return found


def _of_calls(request_ids: Collection[UUID]) -> dict[Patient, Signs]:
    worker_heard = Exists(heard("worker", ProcessRole.WORKER, within=settings.LOST_AFTER / 2))
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
