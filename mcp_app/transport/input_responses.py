"""`inputResponses` held against what was asked: what is answered, and what is to be asked again.

What does not verify is refused in one sentence, whatever is wrong with it. Source: 2026-07-28 basic/patterns/mrtr
"Error Handling".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_app.catalogue import questions
from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.protocol.capabilities import declared
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, clip, fail, missing_client_capability
from mcp_app.transport.exchange import Exchange

REFUSED = "params.requestState is not valid for this request: send the request again without it, and without answers."


@dataclass(frozen=True, slots=True)
class Sorted:
    """Answers that fit, by key, and an InputRequests object of what is missing or does not fit."""

    answers: dict[str, Any]
    again: dict[str, Any]


def refused(exchange: Exchange) -> Rejection:
    """What is said of every state that does not verify."""
    return fail(INVALID_PARAMS, REFUSED, exchange.route.request_id)


def sort(asked: Mapping[str, Any], responses: Mapping[str, Any], exchange: Exchange) -> Sorted | Rejection:
    """Check what came for the InputRequests `asked`. Unknown keys are ignored.

    Refused: what is no answer, and what would be asked again of a client that does not declare it any more.
    """
    answers, again = {}, {}
    for key, request in asked.items():
        if key not in responses:
            again[key] = request
            continue
        try:
            answers[key] = questions.check(request, responses[key])
        except UnfitAnswer as problem:
            again[key] = questions.again(request, str(problem))
        except MalformedAnswer as error:
            problem_at = f"params.inputResponses[{clip(key)!r}]: {error}."
            return fail(INVALID_PARAMS, problem_at, exchange.route.request_id)
    needed = questions.capability(again.values())
    if not declared(needed, exchange.route.metadata.client_capabilities):
        return missing_client_capability(needed, exchange.route.request_id)
    return Sorted(answers, again)
