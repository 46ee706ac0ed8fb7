"""Whether anybody is at work on an open call: what a heartbeat says. Reading only.

The liveness row of the call's worker decides, in database time. Refuses to know when it is said and to whom: that is
the transport's, on a call's own stream as on a connection.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from django.db.models import Exists
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle.processes import heard
from mcp_app.models import Request
from mcp_app.states import OPEN, ProcessRole, Status

WorkerSign = Literal["none", "alive", "silent"]
"""No worker has it (yet); one has, and was heard of lately; one has, and half of `LOST_AFTER` has passed without."""


@dataclass(frozen=True, slots=True)
class VitalSigns:
    """One open call, as it was when it was looked at."""

    jsonrpc_id: str | int
    status: Status
    worker: WorkerSign
    elapsed: float
    """Seconds since it was submitted."""

    @property
    def data(self) -> dict[str, Any]:
        """As the `data` of a log message."""
        return {
            "requestId": self.jsonrpc_id,
            "status": self.status.value,
            "worker": self.worker,
            "elapsedSeconds": round(self.elapsed, 1),
        }


def read(request_ids: Collection[UUID]) -> dict[UUID, VitalSigns]:
    """The signs of those of the calls that are open, by one query."""
    worker_heard = Exists(heard("worker", ProcessRole.WORKER, within=settings.LOST_AFTER / 2))
    rows = Request.objects.filter(pk__in=request_ids, status__in=OPEN).annotate(now=Now(), heard=worker_heard)
    found = rows.values_list("pk", "jsonrpc_id", "status", "heard", "submitted_at", "now")
    return {
        pk: VitalSigns(jsonrpc_id, Status(status), _worker(status, is_heard), (now - submitted_at).total_seconds())
        for pk, jsonrpc_id, status, is_heard, submitted_at, now in found
    }


def _worker(status: str, is_heard: bool) -> WorkerSign:
    if status != Status.RUNNING:
        return "none"
    return "alive" if is_heard else "silent"
