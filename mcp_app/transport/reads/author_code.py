"""Run the code of a resource, prompt or completion, and turn its errors into rejections.

A principal's concurrent reads are limited. The log gets the details of an error; the client gets a
sentence. Source: 2026-07-28 server/resources "Error Handling", server/prompts "Error Handling".
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from mcp_app import languages
from mcp_app.auth.challenges import scopes_required
from mcp_app.catalogue import results
from mcp_app.catalogue.errors import (
    CannotAsk,
    InsufficientScope,
    InvalidArguments,
    InvalidCursor,
    InvalidResult,
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
    clip,
    fail,
    missing_client_capability,
)
from mcp_app.transport.process.author_threads import TookTooLongError
from mcp_app.transport.serving.exchange import Exchange

logger = logging.getLogger(__name__)

R = TypeVar("R")

TOOK_TOO_LONG = "This took longer than the server allows; try again later, or ask for less."


async def run(exchange: Exchange, function: Callable[[], R]) -> R | Rejection:
    """Return what `function` returns, or the rejection to send instead.

    The caller is confirmed afterwards, because the code may have run for long.
    """
    admission = exchange.server.admission
    refusal = admission.refuse_read(exchange.principal, exchange.route.request_id)
    if refusal is not None:
        return refusal
    with admission.reads.hold(exchange.principal, object()):
        try:
            result: R | Rejection = await exchange.server.authors.run(languages.run_in, exchange.language, function)
        except Exception as error:
            result = languages.run_in(exchange.language, _rejection, error, exchange)
        lost = await exchange.confirm_caller()
        return result if lost is None else lost.rejection


def _rejection(error: Exception, exchange: Exchange) -> Rejection:
    request_id = exchange.route.request_id
    if isinstance(error, ResourceNotFound) and "uri" in exchange.route.params:
        return fail(INVALID_PARAMS, "Resource not found.", request_id, data={"uri": exchange.route.params["uri"]})
    if isinstance(error, InsufficientScope):
        return scopes_required(error.missing, error.needed, exchange.principal, request_id)
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
    loggable = redaction.error_without_text(error)
    if isinstance(error, InvalidResult):  # a traceback would only show this project's code
        logger.error(
            "%s: %s returned a result that cannot be sent: %s", exchange.route.method, _target_of(exchange), loggable
        )
    else:
        logger.error("%s: %s failed", exchange.route.method, _target_of(exchange), exc_info=loggable)
    return fail(INTERNAL_ERROR, results.failure_text("request", error, loggable), request_id)


def _target_of(exchange: Exchange) -> str:
    """Return the name, URI or reference in a request, in a form that is safe for the log."""
    params = exchange.route.params
    target = next((params[name] for name in ("name", "uri", "ref") if name in params), "")
    return redaction.loggable_text(repr(clip(str(target))))
