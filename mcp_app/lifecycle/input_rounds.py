"""Rounds of input: what a request asks of its client, what was answered, and what must not be done twice.

RUNNING → INPUT_REQUIRED when the tool asks, → QUEUED when everything is answered, and the tool runs again from its
start. Each round has a number that is used once: whoever answers must name the current one. Refuses to know what a
question means: values are InputRequests and InputResponses objects, checked by who calls.
Source: 2026-07-28 basic/patterns/mrtr.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle import endings, events, transitions
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import insistent, transactional
from mcp_app.models import Request
from mcp_app.states import EventKind, Stage, Status


@dataclass(frozen=True, slots=True)
class Retry:
    """What the request that brings answers says of itself: it replaces what the one before said."""

    jsonrpc_id: str | int
    server: UUID | None = None
    progress_token: str | int | None = None
    log_level: str = ""
    client_info: dict[str, Any] = field(default_factory=dict)
    client_capabilities: dict[str, Any] = field(default_factory=dict)
    trace_context: dict[str, str] = field(default_factory=dict)
    remote_address: str = ""


@transactional
def ask(
    request_id: UUID, questions: Mapping[str, Any], *, worker: UUID | None, stage: Stage = Stage.NONE
) -> Status | None:
    """End a run with questions: the status that the request was given, or None when it is not `worker`'s to write.

    CANCELLED where a cancellation was accepted meanwhile; FAILED where its caller has as many questions open as may be.
    """
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.RUNNING, killing=False).first()
    if row is None or row.worker != worker:
        return None
    if row.cancel_requested_at is not None:
        return Status.CANCELLED if transitions.close(row, Status.CANCELLED, stage=max(row.stage, stage)) else None
    if _waiting(row) >= settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
        refusal = endings.error_result(endings.TOO_MANY_QUESTIONS)
        return Status.FAILED if transitions.close(row, Status.FAILED, result=refusal) else None
    asked = transitions.move(
        row,
        Status.INPUT_REQUIRED,
        _asked(questions),
        questions=events.storable(dict(questions)),
        input_round=row.input_round + 1,
        deadline_at=from_now(settings.MAX_INPUT_SECONDS),
    )
    return Status.INPUT_REQUIRED if asked else None


def waiting_for(request_id: UUID, number: int) -> Request | None:
    """The request if its round `number` was not answered: it asks, or was closed while it asked."""
    row = Request.objects.filter(pk=request_id, input_round=number).first()
    return row if row is not None and row.questions else None


@transactional
def answer(
    request_id: UUID, number: int, answers: Mapping[str, Any], again: Mapping[str, Any], retry: Retry
) -> Request | None:
    """Take the answers of round `number`, once: the request as it is now, or None when another came first.

    QUEUED when nothing is asked `again`; it is then to be published. Otherwise it goes on asking, in a new round with
    the same deadline.
    """
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.INPUT_REQUIRED).first()
    if row is None or row.input_round != number:
        return None
    return take(row, answers, {}, again, {} if again else _as_retried(retry))


def take(
    row: Request,
    answers: Mapping[str, Any],
    left: Mapping[str, Any],
    again: Mapping[str, Any],
    retried: Mapping[str, Any] | None = None,
) -> Request | None:
    """Take answers to what a row asks that this transaction has locked; None when that did not take.

    What is `left` goes on being asked, and what is asked `again` is, in a new round. QUEUED when that is nothing; the
    columns that are `retried` are what its client says of itself now.
    """
    asked = {**left, **again}
    columns: dict[str, Any] = {
        "answers": {**row.answers, **events.storable(dict(answers))},
        "questions": events.storable(asked),
        "input_round": row.input_round + bool(again),
        **(retried or {}),
    }
    if not asked:
        columns |= _queued_again()
    told = [*([_answered(answers)] if answers else []), *_asked(again)]
    if not transitions.move(row, Status.INPUT_REQUIRED if asked else Status.QUEUED, told, **columns):
        return None
    row.refresh_from_db()
    return row


@insistent
def keep(request_id: UUID, key: str, value: Any, *, worker: UUID | None) -> bool:
    """Keep what a tool has done once, under its key; False when the request is not `worker`'s run any more.

    Without a transaction, for the reason of `appending`: nobody but its run writes what it keeps.
    """
    run = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker)
    kept = run.values_list("kept", flat=True).first()
    if kept is None:
        return False
    return bool(run.update(kept={**kept, key: events.storable(value)}))


def _waiting(row: Request) -> int:
    """How many requests of the same caller ask for input."""
    # Counted here: by its indexes SQLite would go through all that this caller ever sent.
    asking = Request.objects.filter(status=Status.INPUT_REQUIRED).values_list("issuer", "subject", "client_id")
    return list(asking).count((row.issuer, row.subject, row.client_id))


def _as_retried(retry: Retry) -> dict[str, Any]:
    return {
        "jsonrpc_id": retry.jsonrpc_id,
        "server": retry.server,
        "progress_token": retry.progress_token,
        "log_level": retry.log_level,
        "client_info": retry.client_info,
        "client_capabilities": retry.client_capabilities,
        "trace_context": retry.trace_context,
        "remote_address": retry.remote_address,
    }


def _queued_again() -> dict[str, Any]:
    return {
        "queued_at": Now(),
        "published_at": None,
        "claimed_at": None,
        "deadline_at": from_now(settings.MAX_QUEUE_SECONDS),
    }


def _asked(questions: Mapping[str, Any]) -> list[Event]:
    """One for each question: its number is what some clients know the question by (`session_inputs`)."""
    return [Event(EventKind.INPUT, {"asked": {key: question}}) for key, question in questions.items()]


def _answered(answers: Mapping[str, Any]) -> Event:
    return Event(EventKind.INPUT, {"answered": dict(answers)})
