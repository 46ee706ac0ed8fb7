"""Reads every row of a run from the database, in a process with the site's environment.

`python -m tests.chaos.rows` prints the rows as one line of JSON.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.site.inspector import ROOT


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Times are Unix times."""

    id: str
    tag: str
    tool: str
    protocol_version: str
    jsonrpc_id: Any
    status: str
    stage: int
    killing: bool
    cancel_cause: str
    submitted_at: float
    claimed_at: float | None
    cancel_requested_at: float | None
    finished_at: float | None
    delivered: bool
    error: Any
    result: dict[str, Any] | None
    """The CallToolResult for its client, once the request has ended."""
    protocol_error: dict[str, Any] | None
    worker_pid: int | None
    event_seq: int
    events: list[tuple[int, str, str]]
    """The number and kind of each event, and the status of a transition."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of the audit."""

    id: int
    request_id: str | None
    cause: str
    outcome: str
    settled: bool
    status_after: str
    stage: int


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a run."""

    requests: list[Request]
    attempts: list[Attempt]
    stopped: dict[str, bool]
    """Whether each process has recorded its stop, by its boot id in hex."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Rows":
        done = subprocess.run(
            [sys.executable, "-m", __name__], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        return cls(
            [Request(**row) for row in found["requests"]],
            [Attempt(**row) for row in found["attempts"]],
            found["stopped"],
        )


def _dump() -> dict[str, Any]:
    from collections import defaultdict

    from mcp_app import models
    from mcp_app.lifecycle.requests.observation import final_result, protocol_error
    from mcp_app.states import TERMINAL

    def at(moment: Any) -> float | None:
        return None if moment is None else float(moment.timestamp())

    told = defaultdict(list)
    events = models.RequestEvent.objects.order_by("request", "seq").values_list("request", "seq", "kind", "data")
    for request, seq, kind, data in events.iterator():
        told[request].append((seq, kind, data.get("status", "")))
    requests = [
        {
            "id": str(row.pk),
            "tag": row.arguments.get("tag", ""),
            "tool": row.tool,
            "protocol_version": row.protocol_version,
            "jsonrpc_id": row.jsonrpc_id,
            "status": row.status,
            "stage": row.stage,
            "killing": row.killing,
            "cancel_cause": row.cancel_cause,
            "submitted_at": at(row.submitted_at),
            "claimed_at": at(row.claimed_at),
            "cancel_requested_at": at(row.cancel_requested_at),
            "finished_at": at(row.finished_at),
            "delivered": row.delivered_at is not None,
            "error": row.error,
            "result": final_result(row) if row.status in TERMINAL else None,
            "protocol_error": protocol_error(row),
            "worker_pid": row.worker_pid,
            "event_seq": row.event_seq,
            "events": told[row.pk],
        }
        for row in models.Request.objects.order_by("submitted_at").iterator(200)
    ]
    attempts = [
        {
            "id": row.pk,
            "request_id": str(row.request_id) if row.request_id else None,
            "cause": row.cause,
            "outcome": row.outcome,
            "settled": row.settled_at is not None,
            "status_after": row.status_after,
            "stage": row.stage,
        }
        for row in models.Cancellation.objects.order_by("pk").iterator()
    ]
    return {
        "requests": requests,
        "attempts": attempts,
        "stopped": {row.boot_id.hex: row.stopped_at is not None for row in models.Process.objects.all()},
    }


def main() -> None:
    import django

    django.setup()
    json.dump(_dump(), sys.stdout)


if __name__ == "__main__":
    main()
