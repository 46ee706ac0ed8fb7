"""Wait until a condition is true, for a bounded time."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 10.0
PAUSE: Final = 0.02


def eventually(
    condition: Callable[[], T], what: str | Callable[[], str] = "the condition is true", within: float = PATIENCE
) -> T:
    """Return the first true value of `condition`.

    Fails after `within` seconds. `what` describes the condition in the error message.
    """
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(PAUSE)
    return value
