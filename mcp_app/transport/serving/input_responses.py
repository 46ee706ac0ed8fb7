"""Checks `inputResponses` against the questions: which are answered, and which must be asked again.

A `requestState` that does not verify gets the same error whatever is wrong with it.
A request whose questions are all answered is published again by `publish_answered`.
Source: 2026-07-28 basic/patterns/mrtr, "Error Handling".
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.input import questions
from mcp_app.conf import settings
from mcp_app.lifecycle import publishing
from mcp_app.models import Request
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, clip, fail, missing_client_capability
from mcp_app.protocol.metadata import has_capabilities
from mcp_app.transport.server import Server
from mcp_app.transport.serving.exchange import Exchange

logger = logging.getLogger(__name__)

REFUSED = "params.requestState is not valid for this request: send the request again without it, and without answers."


@dataclass(frozen=True, slots=True)
class Sorted:
    """The answers that fit, by key, and the questions to ask again, as an InputRequests object."""

    answers: dict[str, Any]
    again: dict[str, Any]


def refused(exchange: Exchange) -> Rejection:
    """Return the error for a state that does not verify."""
    return fail(INVALID_PARAMS, REFUSED, exchange.route.request_id)


def sort(asked: Mapping[str, Any], responses: Mapping[str, Any], exchange: Exchange) -> Sorted | Rejection:
    """Check the responses to the InputRequests `asked`. Unknown keys are ignored.

    Malformed responses are rejected. So is a client that no longer declares the capability to be
    asked again.
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
    if not has_capabilities(needed, exchange.route.metadata.client_capabilities):
        return missing_client_capability(needed, exchange.route.request_id)
    return Sorted(answers, again)


async def publish_answered(row: Request, server: Server) -> None:
    """Publish a request again whose questions are answered.

    If that fails, supervision publishes it later.

    The client that sent the answers does not wait for a broker that hangs.
    """
    try:
        async with asyncio.timeout(settings.PUBLISH_TIMEOUT):
            await server.broker.run(publishing.send, row.pk, row.queue)
    except Exception as error:
        logger.error(
            "the answered request %s could not be sent to the broker; supervision sends it again: %s", row.pk, error
        )
