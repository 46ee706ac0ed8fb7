"""What a task asks of its client, and its answers: by keys that are each used for one question only.

A tool may ask under the same key again, when an answer did not fit; then the key shown carries the round's number. What
is answered in part goes on being asked, in the same round. Refuses to know what a question means, as `input_rounds`.
Source: ext-tasks specification/draft/tasks "Task Update Requests".
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mcp_app.lifecycle import events, input_rounds, originals
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.redaction import Kind, Redacted
from mcp_app.models import Request
from mcp_app.states import Status


def outstanding(row: Request) -> dict[str, Any]:
    """What is asked now: an InputRequests object by the keys that are shown."""
    asked = row.original("questions")
    return {key: asked[question] for key, question in keys(row).items()}


def keys(row: Request) -> dict[str, str]:
    """The key shown for each question that is asked now, and the key that the tool has for it."""
    if row.status != Status.INPUT_REQUIRED:
        return {}
    return {
        f"{question}~{row.input_round}" if question in row.answers else question: question for question in row.questions
    }


def answer(request_id: UUID, number: int, answers: Mapping[str, Any]) -> Request | None:
    """Take answers to questions of round `number`, by the tool's keys; what is not asked any more is passed over.

    The request as it is now: QUEUED once everything is answered, and then to be published. None when nothing was taken.
    """
    came = originals.redact_for(request_id, Kind.ANSWER, events.storable(dict(answers)))
    return _answer(request_id, number, came)


@transactional
def _answer(request_id: UUID, number: int, answers: Redacted) -> Request | None:
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.INPUT_REQUIRED).first()
    if row is None or row.input_round != number:
        return None
    taken = [key for key in answers.value if key in row.questions]
    if not taken:
        return None
    fit = Redacted({key: answers.value[key] for key in taken}, {key: answers.kept[key] for key in taken})
    left = [key for key in row.questions if key not in taken]
    return input_rounds.take(row, fit, left, input_rounds.NOTHING)
