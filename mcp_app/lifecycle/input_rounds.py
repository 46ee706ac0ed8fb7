"""Rounds of input: what a request asks of its client, what was answered, and what must not be done twice.

RUNNING → INPUT_REQUIRED when the tool asks, → QUEUED when everything is answered, and the tool runs again from its
start. Each round has a number that is used once: whoever answers must name the current one. Refuses to know what a
question means: values are InputRequests and InputResponses objects, checked by who calls.
Source: 2026-07-28 basic/patterns/mrtr.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from mcp_app.auth.principal import COLUMNS, key_of
from mcp_app.conf import settings
from mcp_app.lifecycle import endings, events, originals, transitions
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import insistent, transactional
from mcp_app.lifecycle.redaction import Kind, Redacted
from mcp_app.lifecycle.submission import Asking
from mcp_app.models import Request
from mcp_app.states import EventKind, Stage, Status

NOTHING = Redacted({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Asking):
    """What the request that brings answers says of itself: it replaces what the one before said."""

    scopes: frozenset[str] | None = None
    """What the token that brought it was given for; None: no token limits its bearer."""


@transactional
def ask(
    request_id: UUID,
    questions: Mapping[str, Any],
    *,
    worker: UUID | None,
    stage: Stage = Stage.NONE,
    kept: Mapping[str, Any] = MappingProxyType({}),
) -> Status | None:
    """End a run with questions: the status that the request was given, or None when it is not `worker`'s to write.

    CANCELLED where a cancellation was accepted meanwhile; FAILED where its caller has as many questions open as may be.
    `kept` is what redaction leaves of those of which it leaves out anything.
    """
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.RUNNING, killing=False).first()
    if row is None or row.worker != worker:
        return None
    if row.cancel_requested_at is not None:
        return Status.CANCELLED if transitions.close(row, Status.CANCELLED, stage=max(row.stage, stage)) else None
    if _waiting(row) >= settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
        refusal = endings.error_result(endings.TOO_MANY_QUESTIONS)
        return Status.FAILED if transitions.close(row, Status.FAILED, result=refusal) else None
    values = events.storable(dict(questions))
    redacted = Redacted(values, {**values, **kept})
    asked = transitions.move(
        row,
        Status.INPUT_REQUIRED,
        _asked(redacted),
        **originals.columns(row, questions=redacted),
        input_round=row.input_round + 1,
        deadline_at=from_now(settings.MAX_INPUT_SECONDS),
    )
    return Status.INPUT_REQUIRED if asked else None


def waiting_for(request_id: UUID, number: int) -> Request | None:
    """The request if its round `number` was not answered: it asks, or was closed while it asked."""
    row = Request.objects.filter(pk=request_id, input_round=number).first()
    return row if row is not None and row.questions else None


def answer(
    request_id: UUID, number: int, answers: Mapping[str, Any], again: Mapping[str, Any], retry: Retry
) -> Request | None:
    """Take the answers of round `number`, once: the request as it is now, or None when another came first.

    QUEUED when nothing is asked `again`; it is then to be published. Otherwise it goes on asking, in a new round with
    the same deadline.
    """
    answered = originals.redact_for(request_id, Kind.ANSWER, events.storable(dict(answers)))
    asked = originals.redact_for(request_id, Kind.QUESTION, events.storable(dict(again)))
    return _answer(request_id, number, answered, asked, retry, [])


@transactional
def _answer(
    request_id: UUID, number: int, answers: Redacted, again: Redacted, retry: Retry, tried: list[Request]
) -> Request | None:
    """`tried`: the row as each try left it, should the answer to its commit be lost."""
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is not None and tried and _is_as_left(row, tried[-1]):
        return tried[-1]
    if row is None or row.status != Status.INPUT_REQUIRED or row.input_round != number:
        return None
    taken = take(row, answers, (), again, {} if again.value else _as_retried(retry))
    if taken is not None:
        tried.append(taken)
    return taken


def _is_as_left(row: Request, left: Request) -> bool:
    """Whether a row has been through what it was left at: it may have moved on since."""
    said = ("input_round", "answers", "jsonrpc_id", "server")
    return row.event_seq >= left.event_seq and all(getattr(row, name) == getattr(left, name) for name in said)


def take(
    row: Request,
    answers: Redacted,
    left: Collection[str],
    again: Redacted,
    retried: Mapping[str, Any] | None = None,
) -> Request | None:
    """Take answers to what a row asks that this transaction has locked; None when that did not take.

    What is `left`, by its keys, goes on being asked, and what is asked `again` is, in a new round. QUEUED when that is
    nothing; the columns that are `retried` are what its client says of itself now.
    """
    before = originals.of(row, "questions")
    going_on = Redacted({key: before.value[key] for key in left}, {key: before.kept[key] for key in left})
    asked = going_on | again
    columns: dict[str, Any] = {
        **originals.columns(row, answers=originals.of(row, "answers") | answers, questions=asked),
        "input_round": row.input_round + bool(again.value),
        **(retried or {}),
    }
    if not asked.value:
        columns |= _queued_again(columns.get("caller_limit", row.caller_limit))
    told = [*([_answered(answers)] if answers.value else []), *_asked(again)]
    if not transitions.move(row, Status.INPUT_REQUIRED if asked.value else Status.QUEUED, told, **columns):
        return None
    row.refresh_from_db()
    return row


@insistent
def keep(
    request_id: UUID,
    key: str,
    value: Any,
    *,
    worker: UUID | None,
    kept: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Keep what a tool has done once, under its key; False when the request is not `worker`'s run any more.

    `kept` has what redaction leaves of it under the same key, where it leaves out anything.

    Without a transaction, for the reason of `appending`: nobody but its run writes what it keeps.
    """
    run = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker)
    row = run.only("kept", "originals", "redacted").first()
    if row is None:
        return False
    value = events.storable(value)
    done = Redacted({key: value}, {key: kept.get(key, value)})
    return bool(run.update(**originals.columns(row, kept=originals.of(row, "kept") | done)))


def _waiting(row: Request) -> int:
    """How many requests of the same caller ask for input."""
    # Counted here: by its indexes SQLite would go through all that this caller ever sent.
    asking = Request.objects.filter(status=Status.INPUT_REQUIRED).values_list(*COLUMNS)
    return list(asking).count(key_of(row))


def _as_retried(retry: Retry) -> dict[str, Any]:
    return {**retry.of_itself, "scopes": None if retry.scopes is None else sorted(retry.scopes)}


def _queued_again(caller_limit: float | None) -> dict[str, Any]:
    return {
        "queued_at": Now(),
        "published_at": None,
        "claimed_at": None,
        "deadline_at": transitions.deadline_in_the_queue(caller_limit),
    }


def _asked(questions: Redacted) -> list[Event]:
    """One for each question: its number is what some clients know the question by (`session_inputs`)."""
    return [Event(EventKind.INPUT, {"asked": {key: question}}) for key, question in questions.kept.items()]


def _answered(answers: Redacted) -> Event:
    return Event(EventKind.INPUT, {"answered": dict(answers.kept)})
