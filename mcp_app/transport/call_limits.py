"""What a tool, or the site for all of them, lets one caller have: so many calls in a time, so many at once.

Runs in a thread. A call that passed every other check counts, also where there are too many at once.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.lifecycle import call_rates, concurrency
from mcp_app.lifecycle.call_rates import UncountableError
from mcp_app.lifecycle.submission import Submission
from mcp_app.protocol.errors import Rejection
from mcp_app.transport.admission import too_many, unavailable

logger = logging.getLogger(__name__)

R = TypeVar("R")

TOO_OFTEN = "You call this tool too often; wait a moment."
TOO_MANY_AT_ONCE = "Too many calls of this tool of yours are open; wait for one to end."
NOT_COUNTED = "How often this tool is called cannot be counted now; try again in a moment."


def store(submission: Submission, tool: OfferedTool, as_ever: Callable[[Submission], R]) -> R | Rejection:
    """What `as_ever` makes of the call where its tool's limits leave room for it."""
    if (refusal := _refuse_rate(submission, tool)) is not None:
        return refusal
    if tool.concurrency is None:
        return as_ever(submission)
    own = tool.registered.concurrency is not None
    stored = concurrency.submit(submission, tool.concurrency, as_ever, with_started=own)
    return too_many(TOO_MANY_AT_ONCE, submission.jsonrpc_id) if stored is None else stored


def _refuse_rate(submission: Submission, tool: OfferedTool) -> Rejection | None:
    if tool.rate is None:
        return None
    who = call_rates.of_caller(submission.principal, submission.remote_address, tool.name)
    try:
        wait = call_rates.take(tool.rate, who, time.time())
    except UncountableError as error:
        logger.error("calls of %s are refused, as the cache does not count them: %s", tool.name, error)
        return unavailable(NOT_COUNTED, submission.jsonrpc_id)
    return too_many(TOO_OFTEN, submission.jsonrpc_id, retry_after=wait) if wait else None
