"""Questions of a task and their answers.

A client may use each key for one question only. But a tool may ask under the same key again, if an
answer was not valid. In this case the key that the client sees also has the number of the round.
Questions that a client has not answered yet stay open, in the same round.

Source: ext-tasks specification/draft/tasks "Task Update Requests".
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mcp_app.lifecycle import redaction
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.redaction import PayloadKind, Redacted
from mcp_app.models import Request
from mcp_app.states import Status


def open_questions(row: Request) -> dict[str, Any]:
    """Return the open questions, as an InputRequests object with the keys that the client sees."""
    asked = row.unredacted_value("questions")
    return {key: asked[question] for key, question in keys(row).items()}


def keys(row: Request) -> dict[str, str]:
    """Map the keys that the client sees to the tool's keys, for all open questions."""
    if row.status != Status.INPUT_REQUIRED:
        return {}
    return {
        f"{question}~{row.input_round}" if question in row.answers else question: question for question in row.questions
    }


def answer(request_id: UUID, number: int, answers: Mapping[str, Any]) -> Request | None:
    """Store answers to questions of round `number`, by the tool's keys, and return the request.

    Answers to questions that are no longer open are ignored. If all questions are answered, the
    request is QUEUED, and the caller must publish it. Return `None` if no answer was stored.
    """
    redacted = redaction.redact_for(request_id, PayloadKind.ANSWER, storable(dict(answers)))
    return _answer(request_id, number, redacted)


@transactional
def _answer(request_id: UUID, number: int, answers: Redacted) -> Request | None:
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.INPUT_REQUIRED).first()
    if row is None or row.input_round != number:
        return None
    taken = [key for key in answers.value if key in row.questions]
    if not taken:
        return None
    accepted = Redacted({key: answers.value[key] for key in taken}, {key: answers.kept[key] for key in taken})
    remaining = [key for key in row.questions if key not in taken]
    return input_rounds.take(row, accepted, remaining, input_rounds.NOTHING)
