"""Ask a legacy client for input, and store its answers.

Questions are JSON-RPC requests of the server, and answers are the client's responses, on any
transport. The id of such a request is the id of the event that asks. Any server process can store
an answer, but only in the session that was asked. An answer to no open question is ignored. A
malformed answer or an error counts as an answer that the client cannot be asked this, because the
client will not send another one. Source: 2025-11-25 client/elicitation, client/sampling,
client/roots.
"""

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.input import questions
from mcp_app.lifecycle import redaction
from mcp_app.lifecycle.input import read_questions, session_inputs, visits
from mcp_app.lifecycle.input.session_inputs import OpenQuestion
from mcp_app.lifecycle.requests.observation import Observed
from mcp_app.models import Request
from mcp_app.protocol.errors import clip
from mcp_app.protocol.jsonrpc import ClientResponse
from mcp_app.protocol.legacy import questions as legacy_questions
from mcp_app.protocol.revisions import Revision
from mcp_app.protocol.sse import EventId, read_event_id
from mcp_app.states import Status
from mcp_app.transport.server import Server
from mcp_app.transport.serving.input_responses import publish_answered

logger = logging.getLogger(__name__)

NumberedMessages = list[tuple[int, dict[str, Any]]]
"""Messages, each with the number of its event."""


class CallQuestions:
    """The questions of one call, and which of them its client has received."""

    def __init__(self, server: Server, revision: Revision, *, received_until: int = 0, is_asked: bool = False) -> None:
        """Prepare the questions of one connection.

        `received_until` is the last event that the client has received. `is_asked` says whether
        there may already be questions.
        """
        self._server = server
        self._revision = revision
        self._received_until = received_until
        self._is_asked = is_asked

    async def pending(self, observed: Observed) -> NumberedMessages:
        """Return the questions to ask now, and notifications about pages that are finished."""
        if not self._is_asked and observed.questions is None:
            return []
        pending = await self._server.rows.insist(_pending_messages, self._revision, observed, self._received_until)
        self._received_until = observed.event_seq
        self._is_asked = observed.questions is not None or observed.has_more
        return pending

    async def withdrawals(self, request_id: UUID) -> list[dict[str, Any]]:
        """Return the messages that withdraw unanswered questions which the client has received."""
        return (
            await self._server.rows.run(_withdrawals, request_id, self._received_until) if self._received_until else []
        )


async def store_answer(
    server: Server, answer: ClientResponse, *, principal: Principal, session_id: UUID | None
) -> None:
    """Store the principal's answer to a question of a call or read.

    `session_id` is `None` for a session without a row. A call that has all its answers is
    published.
    """
    row = await server.rows.run(_store_answer, answer, principal, session_id)
    if row is not None and row.status == Status.QUEUED:
        await publish_answered(row, server)


def find_asker(answer: ClientResponse) -> UUID | None:
    """Return the id of the call or read whose question this answers, or `None`."""
    event_id = _read_event_id(answer)
    return None if event_id is None else event_id.request


def _store_answer(answer: ClientResponse, principal: Principal, session_id: UUID | None) -> Request | None:
    event_id = _read_event_id(answer)
    if event_id is None or event_id.request is None:
        return None
    asker, number = event_id.request, event_id.seq
    open_question = session_inputs.find(asker, number, session=session_id, principal=principal)
    if open_question is None:
        read_questions.answer(asker, number, answer.message, session=session_id, principal=principal)
        return None
    try:
        value = read_response(asker, open_question.question, answer.message)
        # The user has only agreed to open the page. The answer comes from the page.
        if value.get("action") == "accept" and visits.sends_to_page(asker, open_question.key, open_question.question):
            return None
        return session_inputs.answer(open_question, value)
    except UnfitAnswer as problem:
        session_inputs.ask_again(open_question, questions.again(open_question.question, str(problem)))
        return None


def _read_event_id(answer: ClientResponse) -> EventId | None:
    return read_event_id(answer.request_id) if isinstance(answer.request_id, str) else None


def read_response(asker: UUID, question: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to an InputRequest, in its stored form, from a JSON-RPC response.

    Raises `UnfitAnswer`.
    """
    method = question["method"]
    if "result" not in message:
        error = message["error"]
        text = clip(str(error.get("message") if isinstance(error, Mapping) else error))
        logger.warning(
            "request %s: the client answered %s with an error: %r", asker, method, redaction.loggable_text(text)
        )
        return questions.error_answer(f"The client answered {method} with an error: {text}")
    try:
        return questions.check(question, message["result"])
    except MalformedAnswer as fault:
        logger.warning("request %s: the client's answer is malformed: %s", asker, redaction.loggable_text(str(fault)))
        return questions.error_answer(f"The client answered {method} with an unexpected result: {fault}.")


def _pending_messages(revision: Revision, observed: Observed, received_until: int) -> NumberedMessages:
    """Return questions that the client has not received, and completions of pages."""
    request_id, until = observed.request_id, observed.event_seq
    messages: NumberedMessages = []
    if observed.questions:
        for asked in session_inputs.open_questions(request_id, after=received_until, until=until):
            request = legacy_questions.question_request(
                revision, _jsonrpc_id(asked), asked.question, asked.elicitation_id
            )
            messages.append((asked.seq, request))
    messages += [
        (seq, legacy_questions.elicitation_complete(session_inputs.elicitation_id(request_id, key)))
        for seq, key in session_inputs.finished_visits(request_id, after=received_until, until=until)
    ]
    return sorted(messages, key=lambda each: each[0])


def _withdrawals(request_id: UUID, received_until: int) -> list[dict[str, Any]]:
    unanswered = session_inputs.open_questions(request_id, after=0, until=received_until)
    return [legacy_questions.question_cancelled(_jsonrpc_id(asked), "the call was cancelled") for asked in unanswered]


def _jsonrpc_id(open_question: OpenQuestion) -> str:
    """Return the id of the JSON-RPC request that asks the question."""
    return str(EventId(open_question.request_id, open_question.seq))
