"""Retries of statements and transactions while the database is locked or away, and after deadlocks."""

import logging
import random
import time
from collections.abc import Callable
from functools import partial, wraps
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
            first=FIRST_DELAY,
            longest=LONGEST_DELAY,
            attempts=ATTEMPTS,
            give_up_at=time.monotonic() + GIVE_UP_AFTER,
            on_error=refused,
        )

    return attempt


def repeat(
    function: Callable[[], R],
    errors: type[Exception] | tuple[type[Exception], ...],
    *,
    first: float,
    longest: float,
    attempts: int | None = None,
    give_up_at: float,
    on_error: Callable[[Exception], object],
) -> R:
    """Call `function` until it raises none of `errors`.

    The delays between the calls are in seconds. They begin with `first` and double up to `longest`;
    jitter then changes each by up to half. The last call is number `attempts`, or the first that
    fails after `give_up_at` (`time.monotonic`). Inside a transaction nothing is repeated, because
    only the whole transaction can be.
    """
    delay = first
    calls = 0
    while True:
        calls += 1
        try:
            return function()
        except errors as error:
            is_last = calls == attempts or time.monotonic() > give_up_at
            if is_last or databases.connection().in_atomic_block:
                raise
            on_error(error)
        time.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
        delay = min(2 * delay, longest)
