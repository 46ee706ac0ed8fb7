"""Writes that outlast a lock: "database is locked", deadlocks and serialisation failures are tried again."""

import logging
import random
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import OperationalError

from mcp_app import databases

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS = 14
FIRST_DELAY = 0.02
LONGEST_DELAY = 0.5
"""Seconds: a heartbeat that is tried again must not be late by the silence that makes its process lost."""
GIVE_UP_AFTER = 15.0
"""Seconds after which no attempt is begun: SQLite may itself wait for its lock in each."""


def transactional(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` in a transaction of its own on this app's database; a lost lock runs it again, with jitter.

    Inside an outer transaction it runs once: only the outermost block can be repeated.
    """

    @wraps(function)
    def in_transaction(*args: P.args, **kwargs: P.kwargs) -> R:
        with databases.atomic():
            return function(*args, **kwargs)

    return insistent(in_transaction)


def insistent(function: Callable[P, R]) -> Callable[P, R]:
    """As `transactional`, without a transaction: for what writes with one statement."""

    @wraps(function)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
        delay = FIRST_DELAY
        give_up_at = time.monotonic() + GIVE_UP_AFTER
        for remaining in reversed(range(ATTEMPTS)):
            try:
                return function(*args, **kwargs)
            except OperationalError as error:
                is_within = databases.connection().in_atomic_block
                if not remaining or is_within or time.monotonic() > give_up_at:
                    raise
                logger.info("%s waits for a lock: %s", function.__name__, error)
                # A connection that was lost is replaced: after a statement without a transaction nothing else does it.
                databases.connection().close_if_unusable_or_obsolete()
            time.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            delay = min(2 * delay, LONGEST_DELAY)
        raise AssertionError("unreachable: the last attempt returns or raises")

    return attempt
