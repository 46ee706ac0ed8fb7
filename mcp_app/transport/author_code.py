"""The way to a resource's, prompt's or completion's code, and what its client is told when that fails.

Refuses what is too much for one principal. Details of a failure are for the log, sentences for the client.
Source: 2026-07-28 server/resources "Error Handling", server/prompts "Error Handling".
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from mcp_app import languages
from mcp_app.auth.challenges import lacks_scope
from mcp_app.catalogue.errors import (
    CannotAsk,
    InsufficientScope,
    InvalidArguments,
    InvalidCursor,
    PromptError,
    ResourceError,
    ResourceNotFound,
    TooLarge,
)
from mcp_app.lifecycle import redaction
from mcp_app.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Rejection,
    fail,
    missing_client_capability,
)
from mcp_app.transport.author_threads import TookTooLongError
from mcp_app.transport.exchange import Exchange

logger = logging.getLogger(__name__)

R = TypeVar("R")

FAILED = "The request failed because of an internal error. The server's log has the details."
TOOK_TOO_LONG = "This took longer than the server allows; try again later, or ask for less."


async def run(exchange: Exchange, function: Callable[[], R]) -> R | Rejection:
    """What `function` returns, or the answer that it cannot be had."""
    admission = exchange.server.admission
    refusal = admission.refuse_read(exchange.principal, exchange.route.request_id)
    if refusal is not None:
        return refusal
    with admission.reads.hold(exchange.principal, object()):
        try:
            return await exchange.server.authors.run(languages.run_in, exchange.language, function)
        except Exception as error:
            return languages.run_in(exchange.language, _rejection, error, exchange)


def _rejection(error: Exception, exchange: Exchange) -> Rejection:
    request_id = exchange.route.request_id
    if isinstance(error, ResourceNotFound) and "uri" in exchange.route.params:
        return fail(INVALID_PARAMS, "Resource not found.", request_id, data={"uri": exchange.route.params["uri"]})
    if isinstance(error, InsufficientScope):
        return lacks_scope(error.missing, error.needed, exchange.principal, request_id)
    if isinstance(error, InvalidArguments | InvalidCursor | PromptError):
        return fail(INVALID_PARAMS, str(error), request_id)
    if isinstance(error, CannotAsk):
        if error.required:
            return missing_client_capability(error.required, request_id)
        return fail(INVALID_REQUEST, str(error), request_id)
    if isinstance(error, ResourceError | TooLarge):
        return fail(INTERNAL_ERROR, str(error), request_id)
    if isinstance(error, TookTooLongError | TimeoutError):
        logger.error("%s took too long", exchange.route.method)
        return fail(INTERNAL_ERROR, TOOK_TOO_LONG, request_id)
    logger.error("%s failed", exchange.route.method, exc_info=redaction.wordless(error))
    return fail(INTERNAL_ERROR, FAILED, request_id)
