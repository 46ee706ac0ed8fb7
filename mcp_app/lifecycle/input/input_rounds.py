"""Rounds of input: questions of a tool to its client, the answers, and results that a tool keeps.

When a tool asks, its run ends: RUNNING → INPUT_REQUIRED. When all questions are answered, the
request is queued again, and the tool runs again from its start, with the answers. The tool can keep
values from one run to the next, so that it does nothing twice (`keep`).

Each round has a number, and an answer must name the current one. So each round is answered only
once. The values are InputRequests and InputResponses objects. They are not interpreted here; the
callers check them.

Source: 2026-07-28 basic/patterns/mrtr.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import redaction
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.database.retries import insistent, transactional
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.redaction import PayloadKind, Redacted
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.submission import RequestDetails
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.protocol.results import tool_error
from mcp_app.states import EventKind, Stage, Status

NOTHING = Redacted({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(RequestDetails):
    """Details of the request that brings the answers. They replace those of the first request."""

    scopes: frozenset[str] | None = None
    """The scopes of the token that authorized the request, or `None` if scopes do not limit it."""


@transactional
def ask(
    request_id: UUID,
    questions: Mapping[str, Any],
    *,
    worker: UUID | None,
    stage: Stage = Stage.NONE,
    kept: Mapping[str, Any] = MappingProxyType({}),
) -> Status | None:
    """End a run with questions, and return the new status of the request.

    It is INPUT_REQUIRED; CANCELLED if a cancellation was accepted in the meantime; or FAILED if the
    caller has too many open questions. Return `None` if the request is no longer this worker's run.

    `kept` holds the redacted form of the questions that redaction has changed.
    """
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.RUNNING, killing=False).first()
    if row is None or row.worker != worker:
        return None
    if row.cancel_requested_at is not None:
        return Status.CANCELLED if transitions.close(row, Status.CANCELLED, stage=max(row.stage, stage)) else None
    asking = Request.objects.filter(status=Status.INPUT_REQUIRED)
    if not capacity.has_room(row, asking, settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL):
        refusal = tool_error(observation.TOO_MANY_QUESTIONS)
        return Status.FAILED if transitions.close(row, Status.FAILED, result=refusal) else None
    values = storable(dict(questions))
    redacted = Redacted(values, {**values, **kept})
    asked = transitions.move(
        row,
        Status.INPUT_REQUIRED,
        _question_events(redacted),
        **redaction.columns(row, questions=redacted),
        input_round=row.input_round + 1,
        deadline_at=from_now(settings.MAX_INPUT_SECONDS),
    )
    return Status.INPUT_REQUIRED if asked else None


def find_unanswered(request_id: UUID, number: int) -> Request | None:
    """Return the request if its round `number` is unanswered, even if it was closed, or `None`."""
    row = Request.objects.filter(pk=request_id, input_round=number).first()
    return row if row is not None and row.questions else None


def answer(
    request_id: UUID, number: int, answers: Mapping[str, Any], again: Mapping[str, Any], retry: Retry
) -> Request | None:
    """Store the answers of round `number`, and return the request.

    If there are questions to ask `again`, they form a new round with the same deadline. Otherwise
    the request is QUEUED, and the caller must publish it. Return `None` if the round was answered
    before.
    """
    answered = redaction.redact_for(request_id, PayloadKind.ANSWER, storable(dict(answers)))
    asked = redaction.redact_for(request_id, PayloadKind.QUESTION, storable(dict(again)))
    return _answer(request_id, number, answered, asked, retry, [])


@transactional
def _answer(
    request_id: UUID, number: int, answers: Redacted, again: Redacted, retry: Retry, tried: list[Request]
) -> Request | None:
    """Store answers in one transaction, which may be repeated.

    `tried` collects the rows that the attempts have written: if the database's answer to a commit
    is lost, the next attempt finds out whether it took effect.
    """
    row = Request.objects.select_for_update().filter(pk=request_id).first()
    if row is not None and tried and _has_committed(row, tried[-1]):
        return tried[-1]
    if row is None or row.status != Status.INPUT_REQUIRED or row.input_round != number:
        return None
    scopes = None if retry.scopes is None else sorted(retry.scopes)
    updated = take(row, answers, (), again, {} if again.value else {**retry.of_itself, "scopes": scopes})
    if updated is not None:
        tried.append(updated)
    return updated


def _has_committed(row: Request, written: Request) -> bool:
    """Return whether `written` was committed, although `row` may have changed since."""
    names = ("input_round", "answers", "jsonrpc_id", "server")
    return row.event_seq >= written.event_seq and all(getattr(row, name) == getattr(written, name) for name in names)


def take(
    row: Request,
    answers: Redacted,
    remaining: Collection[str],
    again: Redacted,
    retried: Mapping[str, Any] | None = None,
) -> Request | None:
    """Store answers to the questions of a row that this transaction has locked, and return the row.

    Questions whose keys are in `remaining` stay open, and those in `again` are asked in a new
    round. If there are neither, the request is QUEUED. `retried` are the columns that the client's
    new request replaces.

    Return `None` if the request has changed its status.
    """
    before = redaction.of(row, "questions")
    still_asked = Redacted({key: before.value[key] for key in remaining}, {key: before.kept[key] for key in remaining})
    asked = still_asked | again
    columns: dict[str, Any] = {
        **redaction.columns(row, answers=redaction.of(row, "answers") | answers, questions=asked),
        "input_round": row.input_round + bool(again.value),
        **(retried or {}),
    }
    if not asked.value:
        columns |= {
            "queued_at": Now(),
            "published_at": None,
            "claimed_at": None,
            "deadline_at": transitions.deadline_in_the_queue(columns.get("caller_limit", row.caller_limit)),
        }
    events = _question_events(again)
    if answers.value:
        events.insert(0, Event(EventKind.INPUT, {"answered": dict(answers.kept)}))
    if not transitions.move(row, Status.INPUT_REQUIRED if asked.value else Status.QUEUED, events, **columns):
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
    """Keep a tool's value under a key for its next runs.

    `kept` holds the redacted form of the value under the same key, if redaction has changed it.
    There is no transaction, because only the run itself writes this column.

    Return false if the request is no longer this worker's run.
    """
    run = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker)
    row = run.only("kept", "unredacted", "redacted").first()
    if row is None:
        return False
    value = storable(value)
    done = Redacted({key: value}, {key: kept.get(key, value)})
    return bool(run.update(**redaction.columns(row, kept=redaction.of(row, "kept") | done)))


def _question_events(questions: Redacted) -> list[Event]:
    """Return an event for each question. Its number identifies the question in `session_inputs`."""
    return [Event(EventKind.INPUT, {"asked": {key: question}}) for key, question in questions.kept.items()]
