"""What keeps one more call out: what its caller has open, what waits for a worker, what its tool lets one caller have.

Blocks on the database and the cache. A call that passed every other check counts, also where there are too many at
once. Refuses to know how its caller is told.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.lifecycle import call_rates, concurrency, room
from mcp_app.lifecycle.call_rates import UncountableError
from mcp_app.lifecycle.room import Lack
from mcp_app.lifecycle.submission import Submission

logger = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Excess:
    """Why a call is not taken now."""

    words: str
    """For its caller."""
    is_callers: bool = True
    """Whether it is this caller's own; else the site takes nobody's."""
    retry_after: float | None = None
    """Seconds until it may be taken; None: nobody knows."""


_TOO_OFTEN: Final = "You call this tool too often; wait a moment."
TOO_MANY_AT_ONCE: Final = Excess("Too many calls of this tool of yours are open; wait for one to end.")
NOT_COUNTED: Final = Excess(
    "How often this tool is called cannot be counted now; try again in a moment.", is_callers=False
)
_LACKS: Final = {
    Lack.CALLER: Excess("Too many calls of yours are open; wait for one to end."),
    Lack.QUEUE: Excess("As many calls as may wait for a worker already; try again in a moment.", is_callers=False),
}


def lack_of_room(principal: Principal) -> Excess | None:
    """Why there is no room for one more call of the principal's, whatever the tool."""
    return told(room.lack(principal))


def told(lack: Lack | None) -> Excess | None:
    """What is lacking, in words."""
    return None if lack is None else _LACKS[lack]


def store(submission: Submission, tool: OfferedTool, as_ever: Callable[[Submission], R]) -> R | Excess:
    """What `as_ever` makes of the call where its tool's limits leave room for it."""
    if (excess := _rate_excess(submission, tool)) is not None:
        return excess
    if tool.concurrency is None:
        return as_ever(submission)
    own = tool.registered.concurrency is not None
    stored = concurrency.submit(submission, tool.concurrency, as_ever, with_started=own)
    return TOO_MANY_AT_ONCE if stored is None else stored


def _rate_excess(submission: Submission, tool: OfferedTool) -> Excess | None:
    if tool.rate is None:
        return None
    who = call_rates.of_caller(submission.principal, submission.remote_address, tool.name)
    try:
        wait = call_rates.take(tool.rate, who, time.time())
    except UncountableError as error:
        logger.error("calls of %s are refused, as the cache does not count them: %s", tool.name, error)
        return NOT_COUNTED
    return Excess(_TOO_OFTEN, retry_after=wait) if wait else None
