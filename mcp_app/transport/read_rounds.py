"""A prompt or a resource that asks: from the answers that came to its run, to more questions, or to a no.

Nothing is stored. What was answered so far and done once goes with the questions into the `requestState`, which is
bounded; brought back until it expires, it gives the same once more. Runs authors' code, in a thread. What does not
verify runs nothing, and what is missing or does not fit is asked again at once, without a run.
Source: 2026-07-28 basic/patterns/mrtr.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_app.catalogue.asking import Asked, Known
from mcp_app.catalogue.errors import TooLarge
from mcp_app.conf import settings
from mcp_app.protocol import results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import Answers
from mcp_app.transport import input_responses
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.request_state import Origin, seal, unseal


@dataclass(frozen=True, slots=True)
class Read:
    """A resource to be read, or a prompt to be made, as often as it takes."""

    name: str
    """Of the prompt; the resource's URI."""
    arguments: Mapping[str, str]
    """The prompt's."""
    run: Callable[[Known], dict[str, Any] | Asked]
    """Its result, or what it asks first; in a thread. Raises as `catalogue.reading` does."""


def known(exchange: Exchange, answers: Mapping[str, Any], kept: Mapping[str, Any]) -> Known:
    """What a run for this client knows."""
    metadata = exchange.route.metadata
    return Known(metadata.protocol_version, metadata.client_capabilities, answers, kept)


def answer(read: Read, brought: Answers, exchange: Exchange) -> dict[str, Any] | Rejection:
    """The final result, or the InputRequiredResult that asks for more. Raises as `Read.run` does."""
    answers, kept = brought.input_responses, {}
    if brought.request_state is not None:
        state = unseal(brought.request_state, _origin(read, exchange))
        if state is None:
            return input_responses.refused(exchange)
        asked, answers, kept = state
        came = input_responses.sort(asked, brought.input_responses, exchange)
        if isinstance(came, Rejection):
            return came
        answers |= came.answers
        if came.again:
            return _required(read, exchange, Asked(came.again, kept), answers)
    made = read.run(known(exchange, answers, kept))
    if isinstance(made, Asked):
        return _required(read, exchange, made, answers)
    if brought.request_state is not None and "ttlMs" in made:
        made["ttlMs"] = 0  # a cache does not know what was answered
    return results.complete(made, exchange.server_info())


def _required(read: Read, exchange: Exchange, asked: Asked, answers: Mapping[str, Any]) -> dict[str, Any]:
    sealed = seal([asked.questions, answers, asked.kept], _origin(read, exchange))
    if len(sealed) > settings.MAX_REQUEST_STATE_BYTES:
        at_most = settings.MAX_REQUEST_STATE_BYTES
        raise TooLarge(f"What was asked and answered so far is more than the {at_most} bytes that a requestState has.")
    return results.input_required(asked.questions, request_state=sealed, server_info=exchange.server_info())


def _origin(read: Read, exchange: Exchange) -> Origin:
    return Origin(exchange.principal, exchange.route.method, read.name, read.arguments)
