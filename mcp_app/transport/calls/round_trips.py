"""Handles a `tools/call` that answers the questions of an earlier one.

The sealed `requestState` names a request and its round of questions, which can be answered once
(`lifecycle.input.input_rounds`). A state that does not verify changes nothing. Missing or unfit
answers are asked for again at once, without running the tool. Runs in a thread.
Source: 2026-07-28 basic/patterns/mrtr.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.input.input_rounds import Retry
from mcp_app.lifecycle.requests.observation import final_result
from mcp_app.models import Request
from mcp_app.protocol import results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import CallTool
from mcp_app.states import TERMINAL, Status
from mcp_app.transport.serving import input_responses
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.serving.request_state import Origin, seal, unseal


@dataclass(frozen=True, slots=True)
class Round:
    """A round of questions of a request."""

    request_id: UUID
    number: int


def resume(call: CallTool, exchange: Exchange) -> Request | Rejection | dict[str, Any]:
    """Store the answers. Return the row to publish again, a refusal, or a response."""
    refused = input_responses.refused(exchange)
    asked = _round(call, exchange)
    row = input_rounds.find_unanswered(asked.request_id, asked.number) if asked is not None else None
    if asked is None or row is None or not exchange.principal.owns(row):
        return refused
    if row.status in TERMINAL:
        return results.complete(final_result(row), exchange.server_info())
    came = input_responses.sort(row.unredacted_value("questions"), call.answers.input_responses, exchange)
    if isinstance(came, Rejection):
        return came
    retry = Retry(**exchange.submission_fields, scopes=exchange.principal.scopes)
    taken = input_rounds.answer(row.pk, asked.number, came.answers, came.again, retry)
    if taken is None:
        return refused
    if taken.status == Status.QUEUED:
        return taken
    asked = Round(taken.pk, taken.input_round)
    return required(call.name, call.arguments, exchange, asked, taken.unredacted_value("questions"))


def required(
    tool: str, arguments: Mapping[str, Any], exchange: Exchange, asked: Round, questions: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the InputRequiredResult that asks for the answers of a round of this tool's call."""
    origin = Origin(exchange.principal, exchange.route.method, tool, arguments)
    sealed = seal([asked.request_id.hex, asked.number], origin)
    return results.input_required(questions, request_state=sealed, server_info=exchange.server_info())


def _round(call: CallTool, exchange: Exchange) -> Round | None:
    origin = Origin(exchange.principal, exchange.route.method, call.name, call.arguments)
    state = unseal(call.answers.request_state or "", origin)
    return None if state is None else Round(UUID(state[0]), state[1])
