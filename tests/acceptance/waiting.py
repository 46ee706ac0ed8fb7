"""Waiting for what is owed: bounded, and ended by the event itself."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 10.0
PAUSE: Final = 0.02


def eventually(condition: Callable[[], T], what: str | Callable[[], str], within: float = PATIENCE) -> T:
    """The first true value of `condition`; fails, saying `what` was awaited, after `within` seconds."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(PAUSE)
    return value
