"""Questions that legacy clients are asked by requests of the server, and their answers.

Each question is one request to the client. Its id is derived from the number of the event that
records the question, so that an answer identifies its question, and a question can be answered only
once. If the answer is not valid, the tool's next question has a new number. The other questions of
the round stay open.

Only the session that was asked can answer.
Source: 2025-11-25 client/elicitation, client/sampling, client/roots.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import redaction
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.redaction import PayloadKind, Redacted
from mcp_app.models import Request, RequestEvent
from mcp_app.states import EventKind, Status


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that is not answered. `question` is an InputRequest."""

    request_id: UUID
    seq: int
    key: str
    """The tool's key of the question."""
    question: dict[str, Any]

    @property
    def elicitation_id(self) -> str:
        """The `elicitationId` of its page, which stays the same if the question is asked again."""
        return elicitation_id(self.request_id, self.key)


def elicitation_id(request_id: UUID, key: str) -> str:
    return str(uuid5(request_id, key))


def open_questions(request_id: UUID, *, after: int, until: int) -> list[OpenQuestion]:
    """Return the open questions that were asked in events of these numbers.

    If the request was closed, these are the questions that were open then.
    """
    row = Request.objects.filter(pk=request_id).only("questions", "unredacted").first()
    return [] if row is None else [asked for asked in _asked(row) if after < asked.seq <= until]


def finished_visits(request_id: UUID, *, after: int, until: int) -> list[tuple[int, str]]:
    """Return the pages that the user has finished, as pairs of event number and question key."""
    events = RequestEvent.objects.filter(request=request_id, kind=EventKind.INPUT, seq__gt=after, seq__lte=until)
    found = events.order_by("seq").values_list("seq", "data")
    return [(seq, key) for seq, data in found for key in data.get("visited", ())]


def find(request_id: UUID, seq: int, *, session: UUID | None, principal: Principal) -> OpenQuestion | None:
    """Return the open question that event `seq` of this session's call has asked, or `None`.

    `session` is `None` over stdio, where the connection is the session and has no row.
    """
    row = Request.objects.filter(pk=request_id, session=session, status=Status.INPUT_REQUIRED).first()
    if row is None or not principal.owns(row):
        return None
    return next((asked for asked in _asked(row) if asked.seq == seq), None)


def answer(asked: OpenQuestion, value: Any) -> Request | None:
    """Store the answer to a question, and return the request.

    If all questions are answered, it is QUEUED, and the caller must publish it. Return `None` if
    the question was answered before.
    """
    answers = redaction.redact_for(asked.request_id, PayloadKind.ANSWER, {asked.key: storable(value)})
    return _answer(asked, answers)


@transactional
def _answer(asked: OpenQuestion, answers: Redacted) -> Request | None:
    row = _still_asking(asked)
    if row is None:
        return None
    return input_rounds.take(row, answers, _others(row, asked), input_rounds.NOTHING)


def ask_again(asked: OpenQuestion, question: dict[str, Any]) -> None:
    """Replace a question by another one, unless it was answered in the meantime."""
    _ask_again(asked, redaction.redact_for(asked.request_id, PayloadKind.QUESTION, {asked.key: storable(question)}))


@transactional
def _ask_again(asked: OpenQuestion, again: Redacted) -> None:
    row = _still_asking(asked)
    if row is not None:
        input_rounds.take(row, input_rounds.NOTHING, _others(row, asked), again)


def _others(row: Request, asked: OpenQuestion) -> list[str]:
    return [key for key in row.questions if key != asked.key]


def _still_asking(asked: OpenQuestion) -> Request | None:
    """Lock and return the request, if this question is still open."""
    row = Request.objects.select_for_update().filter(pk=asked.request_id, status=Status.INPUT_REQUIRED).first()
    return row if row is not None and asked in _asked(row) else None


def _asked(row: Request) -> list[OpenQuestion]:
    newest: dict[str, int] = {}
    events = (
        RequestEvent.objects.filter(request=row.pk, kind=EventKind.INPUT).order_by("seq").values_list("seq", "data")
    )
    for seq, data in events if row.questions else ():
        newest |= dict.fromkeys(data.get("asked", ()), seq)
    questions = row.unredacted_value("questions")
    asked = [OpenQuestion(row.pk, newest[key], key, question) for key, question in questions.items() if key in newest]
    return sorted(asked, key=lambda each: each.seq)
