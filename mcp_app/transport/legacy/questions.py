"""How a legacy client is asked, and how it answers: by requests of ours and its responses, whatever carries them.

A request is known by the id of the event that asks. An answer is taken by any process, in the session that was asked
and nowhere else; what answers nothing is passed over. A malformed answer and an error mean that the client cannot be
asked this: nobody would send another. Source: 2025-11-25 client/elicitation, client/sampling, client/roots.
"""

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import questions
from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.lifecycle import read_questions, redaction, session_inputs, visits
from mcp_app.lifecycle.observation import Observed
from mcp_app.lifecycle.session_inputs import Asked
from mcp_app.models import Request
from mcp_app.protocol import legacy_questions
from mcp_app.protocol.errors import clip
from mcp_app.protocol.jsonrpc import Answer
from mcp_app.protocol.legacy_sse import EventId, read_event_id
from mcp_app.protocol.revisions import Revision
from mcp_app.states import Status
from mcp_app.transport import call_stream
from mcp_app.transport.answered import publish_answered
from mcp_app.transport.call_notifications import CallNotifications
from mcp_app.transport.call_stream import CallStream
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.server import Server

logger = logging.getLogger(__name__)

Told = list[tuple[int, dict[str, Any]]]
"""Messages, each with the number of the event that it tells."""


class AskingCall(CallStream):
    """A call whose client is asked on its stream, and answers while it waits."""

    def __init__(self, exchange: LegacyExchange) -> None:
        super().__init__(exchange)
        self._exchange: LegacyExchange = exchange
        self._heard = 0
        """Up to which event its client has been told what it is asked, and done with."""
        self._is_asked = False
        """Whether it was asked something when the call was last looked at."""

    async def _tell(self, observed: Observed, told: CallNotifications) -> bool:
        if observed.questions is None:
            for seq, message in await self._asked(observed):
                await self._send(message, EventId(observed.request_id, seq))
        return await super()._tell(observed, told)

    async def _wait_for(self, request: Request) -> None:
        with self._exchange.asking(request.pk):
            await super()._wait_for(request)

    async def _ask(self, observed: Observed, questions: Mapping[str, Any]) -> bool:
        for seq, message in await self._asked(observed):
            await self._send(message, EventId(observed.request_id, seq))
        return False

    async def _asked(self, observed: Observed) -> Told:
        """What its client is asked now, and the pages that it need not wait for any more."""
        if not self._is_asked and observed.questions is None:
            return []
        told = await self._exchange.server.rows.insist(_to_tell, self._exchange.revision, observed, self._heard)
        self._heard = observed.event_seq
        self._is_asked = observed.questions is not None or observed.has_more
        return told

    async def _send(self, message: dict[str, Any], event_id: EventId) -> None:
        """One message; its event's id is for streams that can be resumed."""
        await self._notify(message)

    async def _answer(self, observed: Observed) -> None:
        await self._withdraw(observed)
        await super()._answer(observed)

    async def _withdraw(self, observed: Observed) -> None:
        """Before the result of a call that was cancelled while it asked: nobody is to answer any more."""
        if observed.status == Status.CANCELLED:
            for message in await self._withdrawals(observed.request_id):
                await self._notify(message)

    async def _give_up(self, error: BaseException) -> None:
        await super()._give_up(error)
        request = await self._stored()
        if request is not None and self._heard and self._exchange.cancelled:
            await self._exchange.take_back(await self._withdrawals(request.pk))

    async def _withdrawals(self, request_id: UUID) -> list[dict[str, Any]]:
        """What takes back the questions that nobody has answered."""
        return await self._exchange.server.rows.run(_to_withdraw, request_id, self._heard)


async def serve_call(exchange: LegacyExchange) -> None:
    """Serve one `tools/call` whose stream cannot be cut off from its client."""
    await call_stream.serve(exchange, lambda _: AskingCall(exchange))


async def take(server: Server, answer: Answer, *, principal: Principal, session_id: UUID | None) -> None:
    """Take a response of the principal's, in its session (None: one without a row), to a call or a read."""
    row = await server.rows.run(_take, answer, principal, session_id)
    if row is not None and row.status == Status.QUEUED:
        await publish_answered(row, server)


def asked_by(answer: Answer) -> UUID | None:
    """Which call or read asked what this answers, by its words; None for what answers nothing of ours."""
    event_id = _event_id(answer)
    return None if event_id is None else event_id.request


def _take(answer: Answer, principal: Principal, session_id: UUID | None) -> Request | None:
    event_id = _event_id(answer)
    if event_id is None or event_id.request is None:
        return None
    asker, number = event_id.request, event_id.seq
    asked = session_inputs.find(asker, number, session=session_id, principal=principal)
    if asked is None:
        read_questions.answer(asker, number, answer.message, session=session_id, principal=principal)
        return None
    try:
        value = read_response(asker, asked.question, answer.message)
        # The user has agreed to open the page; what is done there is the answer.
        if value.get("action") == "accept" and visits.sends_to_page(asker, asked.key, asked.question):
            return None
        return session_inputs.answer(asked, value)
    except UnfitAnswer as problem:
        session_inputs.ask_again(asked, questions.again(asked.question, str(problem)))
        return None


def _event_id(answer: Answer) -> EventId | None:
    return read_event_id(answer.request_id) if isinstance(answer.request_id, str) else None


def read_response(asker: UUID, question: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to an InputRequest, as it is kept, from a JSON-RPC response. Raises `UnfitAnswer`."""
    method = question["method"]
    if "result" not in message:
        error = message["error"]
        said = clip(str(error.get("message") if isinstance(error, Mapping) else error))
        logger.warning("request %s: the client answered %s with an error: %r", asker, method, redaction.quotable(said))
        return questions.error_answer(f"The client answered {method} with an error: {said}")
    try:
        return questions.check(question, message["result"])
    except MalformedAnswer as fault:
        logger.warning("request %s: the client's answer is malformed: %s", asker, redaction.quotable(str(fault)))
        return questions.error_answer(f"The client answered {method} with something else: {fault}.")


def _to_tell(revision: Revision, observed: Observed, heard: int) -> Told:
    """What is asked that the client has not been told, and which of its pages are done with."""
    request_id, until = observed.request_id, observed.event_seq
    asked_now = session_inputs.outstanding(request_id, after=heard, until=until) if observed.questions else []
    told = [
        (asked.seq, legacy_questions.as_request(revision, _name(asked), asked.question, asked.elicitation_id))
        for asked in asked_now
    ]
    told += [
        (seq, legacy_questions.completed(session_inputs.elicitation_id(request_id, key)))
        for seq, key in session_inputs.visited(request_id, after=heard, until=until)
    ]
    return sorted(told, key=lambda each: each[0])


def _to_withdraw(request_id: UUID, heard: int) -> list[dict[str, Any]]:
    unanswered = session_inputs.outstanding(request_id, after=0, until=heard)
    return [legacy_questions.withdrawn(_name(asked), "the call was cancelled") for asked in unanswered]


def _name(asked: Asked) -> str:
    """The id of the JSON-RPC request that asks it."""
    return str(EventId(asked.request_id, asked.seq))
