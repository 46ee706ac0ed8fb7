"""Reads requests for their clients: which watched requests have moved, and the results and errors to send.

A call that was cancelled by an administrator, a time limit or a shutdown, or whose worker was lost, gets a result with
`isError`, because a model can act on it. A client that has cancelled or left
gets no response; the messages for these causes are for the admin and for clients that poll.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

from mcp_app import databases
from mcp_app.databases import Columns
from mcp_app.lifecycle import redaction
from mcp_app.models import ChangeVersion, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.protocol.results import tool_error
from mcp_app.states import TERMINAL, Cause, EventKind, Status

_CANCELLED = {
    Cause.DISCONNECT: "The call was cancelled because its client disconnected.",
    Cause.CLIENT: "The call was cancelled by its client.",
    Cause.ADMIN: "The call was cancelled by an administrator.",
    Cause.DEADLINE: "The call was stopped because its time limit passed.",
    Cause.SHUTDOWN: "The call was stopped because the server is shutting down; you may call again.",
    Cause.ABANDONED: "The call was cancelled because no client came back for its result.",
    Cause.LOST_SERVER: "The call was cancelled because the server process that served its client was lost.",
    Cause.REVOKED: "The call was cancelled because its caller's access ended.",
    Cause.PARENT: "The call was cancelled because the call that started it has ended, was cancelled, or "
    "asked for this.",
}
_LOST = (
    "The worker process that ran this call was lost, and the call was not run again: "
    "it may have been carried out in part. Check before you repeat it."
)
_UNSTOPPABLE = (
    "The call was asked to stop (cause: {cause}), but it could not be stopped where it runs: it may still be running, "
    "and what it does may still take effect. Check before you repeat it."
)
_FAILED = "The call failed inside the server. Its operator can find the details in the log."
_NOT_KEPT = (
    "The call has ended and its result is no longer stored, because it was already delivered "
    "or was not fetched in time."
)
_BROKER = "The call was not run because the task queue could not be reached; try again in a moment."


TOO_MANY_QUESTIONS = (
    "The call asks for input, but too many calls of this caller already wait for input; answer those first."
)


def final_result(row: Request) -> dict[str, Any]:
    """Return the CallToolResult of a request that has ended or cannot be stopped (server/tools, "Error Handling")."""
    result: dict[str, Any] | None = row.unredacted_value("result")
    if "result" in row.redacted and "result" not in (row.unredacted or {}):
        return tool_error(_NOT_KEPT)
    if result is not None:
        return result
    return tool_error(words(row))


def protocol_error(row: Request) -> dict[str, Any] | None:
    """Return the JSON-RPC error (code, message, optional data) with which the call ended, or `None`."""
    if row.status != Status.FAILED or row.result is not None or not row.error or row.error.get("cause") != "protocol":
        return None
    error = row.unredacted_value("error")
    return {name: error[name] for name in ("code", "message", "data") if name in error}


def words(row: Request) -> str:
    """Return a sentence about how a request without a result has ended, or that it cannot be stopped."""
    if row.unstoppable:
        return _with_reason(_UNSTOPPABLE.format(cause=Cause(row.cancel_cause).label), row)
    if row.status == Status.CANCELLED:
        return _with_reason(_CANCELLED[Cause(row.cancel_cause)], row)
    if row.status == Status.LOST:
        return _LOST
    if row.error and row.error.get("cause") == "broker":
        return _BROKER
    if row.error and row.error.get("cause") == "no worker":
        return str(row.error["message"])
    if (error := protocol_error(row)) is not None:
        return str(error["message"])
    return _FAILED


def _with_reason(words: str, row: Request) -> str:
    return f"{words} Reason: {row.cancel_reason}" if row.cancel_reason else words


Subject = str | UUID
"""Something that has versions: the subject of a `ChangeVersion`, or a request, whose version is its `event_seq`."""
MAX_SUBJECTS = 500
"""The most subjects in one query, because databases limit the number of parameters."""
MAX_EVENTS = 100
"""The most events that are read of one request at a time. It bounds the memory that a talkative tool can take."""

_COLUMNS = Columns(
    Request, "id", "tool", "event_seq", "status", "result", "error", "cancel_cause", "cancel_reason", "questions",
    "input_round", "follower", "redacted", "unredacted",
)  # fmt: skip
_TOLD = (EventKind.PROGRESS, EventKind.LOG)
"""The kinds of events of which a client hears."""
_NEEDED = ", ".join(f"'{status}'" for status in sorted((*TERMINAL, Status.INPUT_REQUIRED)))
_UNREDACTED = f"CASE WHEN request.status IN ({_NEEDED}) THEN request.unredacted END"
"""While a request runs, the column holds its arguments, which must not be read with each progress report."""
_SELECT = f"""
SELECT CASE WHEN known.wants_events THEN (SELECT {{as_json}} FROM (
        SELECT seq, kind, data FROM mcp_app_requestevent
        WHERE request_id = request.id AND seq > known.event_seq AND kind IN ('{EventKind.PROGRESS}', '{EventKind.LOG}')
        ORDER BY seq LIMIT {MAX_EVENTS}
    ) AS event) END,
    {", ".join(_UNREDACTED if name == "unredacted" else f"request.{name}" for name in _COLUMNS.names)}
FROM {{known}} WHERE request.event_seq > known.event_seq
"""  # noqa: S608 - constants of ours
_CHANGED = {
    # CROSS and OFFSET make the planner look up each watched request, whatever size it assumes for the table.
    "sqlite": _SELECT.format(
        as_json="json_group_array(json_array(seq, kind, json(data)))",
        known="""(
            SELECT key AS id, json_extract(value, '$[0]') AS event_seq, json_extract(value, '$[1]') AS wants_events
            FROM json_each(%s)
        ) AS known CROSS JOIN mcp_app_request AS request ON request.id = known.id""",
    ),
    # JSON instead of an array, because PostgreSQL would make a new plan for each length of the array.
    "postgresql": _SELECT.format(
        as_json="jsonb_agg(jsonb_build_array(seq, kind, data) ORDER BY seq)",
        known="""(
            SELECT key::uuid AS id, (value ->> 0)::bigint AS event_seq, (value ->> 1)::boolean AS wants_events
            FROM jsonb_each(%s::jsonb)
        ) AS known CROSS JOIN LATERAL (SELECT * FROM mcp_app_request WHERE id = known.id OFFSET 0) AS request""",
    ),
}
"""One statement, so that a request and its events are of the same moment."""


@dataclass(frozen=True, slots=True)
class WatchedRequest:
    """The newest event that a client knows, and whether it wants progress and log events."""

    event_seq: int = 0
    wants_events: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """The changes of a request.

    `events` are (kind, data) in order. `result` is a CallToolResult once the request has ended or cannot be stopped.
    `error` is a JSON-RPC error (code, message, optional data) that replaces the result. `questions` is an InputRequests
    object while the request asks its client, in round `input_round`.
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
    """The cause of its cancellation, or ""."""
    follower: UUID | None = None
    """The connection that resumed its stream, or `None` if the first one still has it."""
    has_more: bool = False
    """Whether there are more events than these. The result comes with the last of them."""

    @property
    def ended(self) -> bool:
        """Whether this is the last observation."""
        return self.status in TERMINAL and not self.has_more


def observe(watched: Mapping[UUID, WatchedRequest]) -> list[Observed]:
    """Return the watched requests that have moved, each with at most `MAX_EVENTS` events."""
    connection = databases.connection()
    if connection.vendor == "mysql":
        return _observe_by_orm(watched)
    known = json.dumps({key.hex: (watch.event_seq, watch.wants_events) for key, watch in watched.items()})
    found = databases.rows(connection, _CHANGED[connection.vendor], [known])
    return [_observed(_COLUMNS.row(row), json.loads(told or "[]")) for told, *row in found]


def _observe_by_orm(watched: Mapping[UUID, WatchedRequest]) -> list[Observed]:
    """Do what `observe` does, with several statements.

    The events are read after the rows, and none that is newer than its row.
    """
    moved = [key for key, seq in versions(watched).items() if isinstance(key, UUID) and seq > watched[key].event_seq]
    found = []
    for row in Request.objects.filter(pk__in=moved).only(*_COLUMNS.names) if moved else ():
        watch = watched[row.pk]
        events = row.events.filter(seq__gt=watch.event_seq, seq__lte=row.event_seq, kind__in=_TOLD).order_by("seq")
        told = events.values_list("seq", "kind", "data")[:MAX_EVENTS] if watch.wants_events else ()
        found.append(_observed(row, list(told)))
    return found


def arguments(request_id: UUID) -> dict[str, Any]:
    """Return the arguments of a request."""
    stored: dict[str, Any] = (
        Request.objects.only("arguments", "unredacted").get(pk=request_id).unredacted_value("arguments")
    )
    return stored


def versions(subjects: Iterable[Subject]) -> dict[Subject, int]:
    """Return the current versions. A subject that has not changed for a long time may have none."""
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
    """Return the running requests that must stop because they were cancelled, declared lost, or deleted."""
    return _without(running, status=Status.RUNNING, cancel_requested_at=None)


def gone(stored: Collection[UUID]) -> set[UUID]:
    """Return the stored requests whose rows were deleted."""
    return _without(stored)


def _without(request_ids: Collection[UUID], **columns: Any) -> set[UUID]:
    """Return the requests that have no row with these columns."""
    waiting, found = iter(request_ids), set(request_ids)
    while batch := list(islice(waiting, MAX_SUBJECTS)):
        found.difference_update(Request.objects.filter(pk__in=batch, **columns).values_list("pk", flat=True))
    return found


def is_answered(row: Request) -> bool:
    """Whether a response can be sent: the request has ended, or cannot be stopped."""
    return row.status in TERMINAL or row.unstoppable


def mark_delivered(request_ids: Iterable[UUID]) -> None:
    """Record that the final responses of these requests were handed to their connections."""
    waiting = iter(request_ids)
    while batch := list(islice(waiting, MAX_SUBJECTS)):
        with databases.turn(databases.connection()):
            Request.objects.filter(pk__in=batch, delivered_at=None).update(delivered_at=Now())
        redaction.forget_delivered(batch)


def _observed(row: Request, told: list[tuple[int, str, dict[str, Any]]]) -> Observed:
    said = partial(
        Observed,
        request_id=row.pk,
        status=Status(row.status),
        events=[(EventKind(kind), data) for _, kind, data in told],
        seqs=[seq for seq, _, _ in told],
        cancel_cause=row.cancel_cause,
        follower=row.follower,
    )
    if len(told) == MAX_EVENTS and told[-1][0] < row.event_seq:
        return said(event_seq=told[-1][0], has_more=True)
    return said(
        event_seq=row.event_seq,
        result=final_result(row) if is_answered(row) else None,
        error=protocol_error(row),
        questions=row.unredacted_value("questions") if row.status == Status.INPUT_REQUIRED else None,
        input_round=row.input_round,
    )
