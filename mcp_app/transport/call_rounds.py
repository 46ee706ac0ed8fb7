"""A `tools/call` that comes back with answers: from its `requestState` to a queued row, to more questions, or to a no.

Runs in a thread. Its state names a request and its round, which is used once (`lifecycle.input_rounds`). What does not
verify changes nothing. What is missing or does not fit is asked again at once, without a run.
Source: 2026-07-28 basic/patterns/mrtr.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mcp_app.lifecycle import input_rounds
from mcp_app.lifecycle.endings import final_result
from mcp_app.lifecycle.input_rounds import Retry
from mcp_app.models import Request
from mcp_app.protocol import results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import CallTool
from mcp_app.states import TERMINAL, Status
from mcp_app.transport import input_responses
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.request_state import Origin, seal, unseal


@dataclass(frozen=True, slots=True)
class Round:
    """A round of a request."""

    request_id: UUID
    number: int


def resume(call: CallTool, exchange: Exchange) -> Request | Rejection | dict[str, Any]:
    """Take the answers: the row, to be published again; or a refusal; or the response that it has already."""
    refused = input_responses.refused(exchange)
    asked = _round(call, exchange)
    row = input_rounds.waiting_for(asked.request_id, asked.number) if asked is not None else None
    if asked is None or row is None or not exchange.principal.owns(row):
        return refused
    if row.status in TERMINAL:
        return results.call_tool(final_result(row), exchange.server_info())
    came = input_responses.sort(row.original("questions"), call.answers.input_responses, exchange)
    if isinstance(came, Rejection):
        return came
    retry = Retry(**exchange.of_itself, scopes=exchange.principal.scopes)
    taken = input_rounds.answer(row.pk, asked.number, came.answers, came.again, retry)
    if taken is None:
        return refused
    if taken.status == Status.QUEUED:
        return taken
    return required(call, exchange, Round(taken.pk, taken.input_round), taken.original("questions"))


def required(call: CallTool, exchange: Exchange, asked: Round, questions: Mapping[str, Any]) -> dict[str, Any]:
    """The InputRequiredResult that asks for the answers of a round."""
    sealed = seal([asked.request_id.hex, asked.number], _origin(call, exchange))
    return results.input_required(questions, request_state=sealed, server_info=exchange.server_info())


def _round(call: CallTool, exchange: Exchange) -> Round | None:
    state = unseal(call.answers.request_state or "", _origin(call, exchange))
    return None if state is None else Round(UUID(state[0]), state[1])


def _origin(call: CallTool, exchange: Exchange) -> Origin:
    return Origin(exchange.principal, exchange.route.method, call.name, call.arguments)
