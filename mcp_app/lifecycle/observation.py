"""What a waiting server process reads: which watched requests moved, and what to tell their clients.

Reading only.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.lifecycle import columns, moved, originals, prepared, run_times
from mcp_app.lifecycle.endings import final_result, protocol_error
from mcp_app.lifecycle.moved import Moved, Watch
from mcp_app.models import ChangeVersion, Request
from mcp_app.states import TERMINAL, EventKind, Status

Subject = str | UUID
"""Of a change: what a `ChangeVersion` counts, or a request, whose newest event's number is its version."""
MAX_SUBJECTS = 500
"""In one query: databases bound its parameters."""


_WANTED = f"""
LEFT JOIN {Request._meta.db_table} AS wanted
ON wanted.id = running.id AND wanted.status = '{Status.RUNNING}' AND wanted.cancel_requested_at IS NULL
WHERE wanted.id IS NULL"""
_UNWANTED = {
    "sqlite": f"SELECT running.id FROM (SELECT value AS id FROM json_each(%s)) AS running {_WANTED}",  # noqa: S608 - of ours
    "postgresql": f"SELECT running.id FROM unnest(%s::uuid[]) AS running (id) {_WANTED}",  # noqa: S608 - of ours
}


_ABSENT = f"WHERE NOT EXISTS (SELECT 1 FROM {Request._meta.db_table} AS kept WHERE kept.id = stored.id)"  # noqa: S608 - a name of the model's
_GONE = {
    "sqlite": f"SELECT stored.id FROM (SELECT value AS id FROM json_each(%s)) AS stored {_ABSENT}",  # noqa: S608 - of ours
    "postgresql": f"SELECT stored.id FROM unnest(%s::uuid[]) AS stored (id) {_ABSENT}",  # noqa: S608 - of ours
}


@dataclass(frozen=True, slots=True)
class Observed:
    """One request that moved. `events` are (kind, data) in order; `result` is a CallToolResult once it ended, or once
    it cannot be stopped where it runs.

    `error` is a JSON-RPC error (code, message, maybe data) that stands for the result. `questions` is an InputRequests
    object while it asks its client, for the `input_round`th time.
    """

    request_id: UUID
    event_seq: int
    status: Status
    events: list[tuple[EventKind, dict[str, Any]]] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    """The number of each event."""
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    questions: dict[str, Any] | None = None
    input_round: int = 0
    cancel_cause: str = ""
    """Why its cancellation was asked for; empty while nobody has."""
    follower: UUID | None = None
    """The connection that resumed its stream; None: the first still has it."""
    has_more: bool = False
    """Whether it has moved past `event_seq` already: what became of it comes with the last of its events."""

    @property
    def ended(self) -> bool:
        """Whether nothing comes after this."""
        return self.status in TERMINAL and not self.has_more


def observe(watched: Mapping[UUID, Watch]) -> list[Observed]:
    """The watched requests whose newest event is newer than what their watchers know: of each a bounded part."""
    return [_observed(each) for each in moved.since(watched)]


def arguments(request_id: UUID) -> dict[str, Any]:
    """What a request's tool was called with."""
    stored: dict[str, Any] = Request.objects.only("arguments", "originals").get(pk=request_id).original("arguments")
    return stored


def versions(subjects: Iterable[Subject]) -> dict[Subject, int]:
    """The current versions; a subject never changed, or not for long, may have none."""
    found: dict[Subject, int] = {}
    waiting = iter(subjects)
    while batch := list(islice(waiting, MAX_SUBJECTS)):
        named = [subject for subject in batch if isinstance(subject, str)]
        requests = [subject for subject in batch if isinstance(subject, UUID)]
        if named:
            found.update(ChangeVersion.objects.filter(pk__in=named).values_list("subject", "version"))
        if requests:
            found.update(Request.objects.filter(pk__in=requests).values_list("pk", "event_seq"))
    return found


def unwanted(running: Collection[UUID]) -> set[UUID]:
    """Of requests that run here, those that are not to go on: cancelled, given up for lost, or gone."""
    return _among(running, _UNWANTED)


def gone(stored: Collection[UUID]) -> set[UUID]:
    """Of requests that have had rows, those that have none any more."""
    return _among(stored, _GONE)


def _among(request_ids: Collection[UUID], statements: Mapping[str, str]) -> set[UUID]:
    connection = databases.connection()
    found = prepared.rows(connection, statements[connection.vendor], [columns.keys(request_ids, connection)])
    return {each if isinstance(each, UUID) else UUID(each) for (each,) in found}


def is_answered(row: Request) -> bool:
    """Whether there is a response to be sent: it ended, or cannot be stopped where it runs."""
    return row.status in TERMINAL or row.unstoppable


def mark_delivered(request_ids: Iterable[UUID]) -> None:
    """Note that the final response of these requests was handed to the connection."""
    ids = list(request_ids)
    connection = databases.connection()
    noted = [columns.keys(ids, connection)]
    with databases.turn(connection):
        prepared.rows(connection, _noting_delivery(connection.alias), noted)
    originals.forget_delivered(ids)


@cache
def _noting_delivery(alias: str) -> str:
    connection = connections[alias]
    now, _ = columns.said(Now(), connection)
    among = columns.AMONG[connection.vendor]
    table = Request._meta.db_table
    return f"UPDATE {table} SET delivered_at = {now} WHERE id {among} AND delivered_at IS NULL RETURNING id"  # noqa: S608 - of ours


def _observed(found: Moved) -> Observed:
    row, told, ran_for = found
    said = partial(
        Observed,
        request_id=row.pk,
        status=Status(row.status),
        events=[(EventKind(kind), data) for _, kind, data in told],
        seqs=[seq for seq, _, _ in told],
        cancel_cause=row.cancel_cause,
        follower=row.follower,
    )
    if found.has_more:
        return said(event_seq=told[-1][0], has_more=True)
    run_times.note(row.tool, ran_for)
    return said(
        event_seq=row.event_seq,
        result=final_result(row) if is_answered(row) else None,
        error=protocol_error(row),
        questions=row.original("questions") if row.status == Status.INPUT_REQUIRED else None,
        input_round=row.input_round,
    )
