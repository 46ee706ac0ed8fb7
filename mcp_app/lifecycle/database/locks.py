"""Retries of statements and transactions while the database is locked or away, and after deadlocks."""

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from itertools import islice
from typing import ParamSpec, TypeVar

from django.db import OperationalError

from mcp_app import databases

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS = 14
FIRST_DELAY = 0.02
LONGEST_DELAY = 0.5
"""Seconds. It is short, so that a heartbeat which is retried is not so late that its process counts as lost."""
GIVE_UP_AFTER = 15.0
"""Seconds after which no attempt begins. SQLite itself may wait for its lock in each attempt."""


def transactional(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` in a transaction on this app's database, and retry it after an `OperationalError`.

    Inside another transaction it runs once, because only the outermost transaction can be repeated.
    """

    @wraps(function)
    def in_transaction(*args: P.args, **kwargs: P.kwargs) -> R:
        with databases.atomic():
            return function(*args, **kwargs)

    return insistent(in_transaction)


def insistent(function: Callable[P, R]) -> Callable[P, R]:
    """Retry a function that executes one statement, and so needs no transaction, like `transactional` does."""

    def refused(error: Exception) -> None:
        logger.info("%s is tried again: %s", function.__name__, error)
        # Replace a lost connection. Django does not do that after a statement without a transaction.
        databases.connection().close_if_unusable_or_obsolete()

    @wraps(function)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
        return repeat(
            partial(function, *args, **kwargs),
            OperationalError,
            delays=islice(growing(FIRST_DELAY, LONGEST_DELAY), ATTEMPTS - 1),
            give_up_at=time.monotonic() + GIVE_UP_AFTER,
            on_error=refused,
        )

    return attempt


def repeat(
    function: Callable[[], R],
    errors: type[Exception] | tuple[type[Exception], ...],
    *,
    delays: Iterable[float],
    give_up_at: float,
    on_error: Callable[[Exception], object],
) -> R:
    """Call `function` until it raises none of `errors`, with these delays in seconds between the calls.

    The last call is the one after the last delay, or the first that fails after `give_up_at`
    (`time.monotonic`). Inside a transaction nothing is repeated, because only the whole transaction
    can be.
    """
    for delay in delays:
        try:
            return function()
        except errors as error:
            if databases.connection().in_atomic_block or time.monotonic() > give_up_at:
                raise
            on_error(error)
        time.sleep(delay)
    return function()


def growing(first: float, longest: float) -> Iterator[float]:
    """Yield delays in seconds for ever.

    They double up to `longest`; jitter then changes each by up to half.
    """
    delay = first
    while True:
        yield delay * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
        delay = min(2 * delay, longest)
