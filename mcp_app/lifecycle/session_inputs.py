"""What a call asks of a client that is asked by requests of ours, each known by the event in which it was asked.

The number of that event is used for one question once, so that an answer says by itself what it answers. What is
answered in part goes on being asked; what is asked again is a new question. Refuses answers of another session, and to
know what a question means, as `input_rounds`. Source: 2025-11-25 client/elicitation, client/sampling, client/roots.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import events, input_rounds, originals
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.redaction import Kind, Redacted
from mcp_app.models import Request, RequestEvent
from mcp_app.states import EventKind, Status


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that is not answered. `question` is an InputRequest."""

    request_id: UUID
    seq: int
    key: str
    """The tool's."""
    question: dict[str, Any]

    @property
    def elicitation_id(self) -> str:
        """What its page is known by; the same when it is asked again."""
        return elicitation_id(self.request_id, self.key)


def elicitation_id(request_id: UUID, key: str) -> str:
    return str(uuid5(request_id, key))


def outstanding(request_id: UUID, *, after: int, until: int) -> list[Asked]:
    """What was asked by events of these numbers and is not answered, or was not when the request was closed."""
    row = Request.objects.filter(pk=request_id).only("questions", "originals").first()
    return [] if row is None else [asked for asked in _asked(row) if after < asked.seq <= until]


def visited(request_id: UUID, *, after: int, until: int) -> list[tuple[int, str]]:
    """The pages that its user was sent to and has done with by events of these numbers: each event's, and its key."""
    told = RequestEvent.objects.filter(request=request_id, kind=EventKind.INPUT, seq__gt=after, seq__lte=until)
    found = told.order_by("seq").values_list("seq", "data")
    return [(seq, key) for seq, data in found for key in data.get("visited", ())]


def find(request_id: UUID, seq: int, *, session: UUID | None, principal: Principal) -> Asked | None:
    """The question of a call of this session that event `seq` asked; None when it is answered, or not theirs.

    `session` is None where a session is the connection's, and has no row.
    """
    row = Request.objects.filter(pk=request_id, session=session, status=Status.INPUT_REQUIRED).first()
    if row is None or not principal.owns(row):
        return None
    return next((asked for asked in _asked(row) if asked.seq == seq), None)


def answer(asked: Asked, value: Any) -> Request | None:
    """Take the answer: the request, QUEUED once all is answered, and then to be published; None when one was taken."""
    answers = originals.redact_for(asked.request_id, Kind.ANSWER, {asked.key: events.storable(value)})
    return _answer(asked, answers)


@transactional
def _answer(asked: Asked, answers: Redacted) -> Request | None:
    row = _still_asking(asked)
    if row is None:
        return None
    return input_rounds.take(row, answers, _others(row, asked), input_rounds.NOTHING)


def ask_again(asked: Asked, question: dict[str, Any]) -> None:
    """Ask for another answer, by another question; nothing if one was taken meanwhile."""
    _ask_again(asked, originals.redact_for(asked.request_id, Kind.QUESTION, {asked.key: events.storable(question)}))


@transactional
def _ask_again(asked: Asked, again: Redacted) -> None:
    row = _still_asking(asked)
    if row is not None:
        input_rounds.take(row, input_rounds.NOTHING, _others(row, asked), again)


def _others(row: Request, asked: Asked) -> list[str]:
    return [key for key in row.questions if key != asked.key]


def _still_asking(asked: Asked) -> Request | None:
    """The request, locked, if it waits for this very answer."""
    row = Request.objects.select_for_update().filter(pk=asked.request_id, status=Status.INPUT_REQUIRED).first()
    return row if row is not None and asked in _asked(row) else None


def _asked(row: Request) -> list[Asked]:
    newest: dict[str, int] = {}
    told = RequestEvent.objects.filter(request=row.pk, kind=EventKind.INPUT).order_by("seq").values_list("seq", "data")
    for seq, data in told if row.questions else ():
        newest |= dict.fromkeys(data.get("asked", ()), seq)
    questions = row.original("questions")
    asked = [Asked(row.pk, newest[key], key, question) for key, question in questions.items() if key in newest]
    return sorted(asked, key=lambda each: each.seq)
