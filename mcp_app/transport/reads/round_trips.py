"""Serve a prompt or resource that asks its client for input (basic/patterns/mrtr, 2026-07-28).

Nothing is stored between the requests. The answers so far, and the results of steps that must run
only once, travel with the questions in the `requestState`, whose size is limited. A client may send
the same `requestState` again until it expires, and gets the same again.

    1. If the `requestState` cannot be verified, nothing runs.
    2. If an answer is missing or does not fit, its question is asked again without a run.
    3. Otherwise the authors' code runs in a thread. It returns the result, or asks for more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_app.catalogue.errors import TooLarge
from mcp_app.catalogue.input.asking import InputNeeded, Known
from mcp_app.conf import settings
from mcp_app.protocol import results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import InputResponses
from mcp_app.transport.serving import input_responses
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.serving.request_state import Origin, seal, unseal


@dataclass(frozen=True, slots=True)
class Read:
    """A resource to read or a prompt to make, in as many runs as it takes."""

    name: str
    """The name of the prompt, or the URI of the resource."""
    arguments: Mapping[str, str]
    """The arguments of the prompt."""
    run: Callable[[Known], dict[str, Any] | InputNeeded]
    """Returns the result, or the questions to ask first. Runs in a thread and raises like
    `catalogue.reads`.
    """


def make_known(exchange: Exchange, answers: Mapping[str, Any], kept: Mapping[str, Any]) -> Known:
    """Return the answers and results that a run for this client can use."""
    metadata = exchange.route.metadata
    return Known(metadata.protocol_version, metadata.client_capabilities, answers, kept)


def answer(read: Read, responses: InputResponses, exchange: Exchange) -> dict[str, Any] | Rejection:
    """Return the final result, or the InputRequiredResult that asks for more.

    Raises like `Read.run`.
    """
    answers, kept = responses.input_responses, {}
    if responses.request_state is not None:
        state = unseal(responses.request_state, _origin(read, exchange))
        if state is None:
            return input_responses.refused(exchange)
        needed, answers, kept = state
        sorted_responses = input_responses.sort(needed, responses.input_responses, exchange)
        if isinstance(sorted_responses, Rejection):
            return sorted_responses
        answers |= sorted_responses.answers
        if sorted_responses.again:
            return _input_required(read, exchange, InputNeeded(sorted_responses.again, kept), answers)
    result = read.run(make_known(exchange, answers, kept))
    if isinstance(result, InputNeeded):
        return _input_required(read, exchange, result, answers)
    if responses.request_state is not None and "ttlMs" in result:
        result["ttlMs"] = 0  # a cache does not know the answers
    return results.complete(result, exchange.server_info())


def _input_required(read: Read, exchange: Exchange, needed: InputNeeded, answers: Mapping[str, Any]) -> dict[str, Any]:
    sealed = seal([needed.questions, answers, needed.kept], _origin(read, exchange))
    if len(sealed) > settings.MAX_REQUEST_STATE_BYTES:
        at_most = settings.MAX_REQUEST_STATE_BYTES
        raise TooLarge(
            f"The questions and answers so far are larger than the {at_most} bytes that fit into a requestState."
        )
    return results.input_required(needed.questions, request_state=sealed, server_info=exchange.server_info())


def _origin(read: Read, exchange: Exchange) -> Origin:
    return Origin(exchange.principal, exchange.route.method, read.name, read.arguments)
