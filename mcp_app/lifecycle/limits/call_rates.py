"""Limits how often a caller may call a tool. All processes that share Django's cache count together.

Calls are counted in windows that begin at whole seconds, minutes, hours or days. So two operations suffice, `add` and
`incr`, which caches perform atomically. If the cache does not count, the call is refused.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from django.core.cache import cache

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.limits import capacity

_TEXT: Final = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_MARGIN_SECONDS: Final = 60
"""How much longer than its window a count is kept, because the clocks of hosts differ."""


@dataclass(frozen=True, slots=True)
class CallRate:
    """The most calls in each window of `seconds`."""

    calls: int
    seconds: float

    @classmethod
    def read(cls, text: str) -> "CallRate":
        """Read a rate such as `10/m`, with `s`, `m`, `h` or `d` as the window. Raises `ValueError`."""
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f'a rate is a number per s, m, h or d, such as "10/m", not {text!r}')
        return cls(int(found[1]), _SECONDS[found[2]])


class UncountableError(Exception):
    """The cache failed to count."""


def of_caller(principal: Principal, tool: str) -> tuple[str, ...]:
    """Return the key by which calls are counted: the caller, or its network if it is anonymous, and the tool."""
    return (*capacity.columns(principal).values(), tool)


def take(rate: CallRate, who: tuple[Any, ...], now: float) -> float:
    """Count one more call of `who` at the time `now` (seconds since the epoch).

    Returns 0 if it is within the rate, otherwise the seconds until the next window. Raises `UncountableError`.
    """
    window, passed = divmod(now, rate.seconds)
    named = hashlib.sha256(json.dumps([*who, rate.seconds, window]).encode()).hexdigest()
    try:
        count = _count(f"mcp_app.rate.{named}", math.ceil(rate.seconds) + _MARGIN_SECONDS)
    except Exception as error:  # every cache backend has its own exceptions
        raise UncountableError(str(error) or type(error).__name__) from error
    return 0.0 if count <= rate.calls else rate.seconds - passed


def _count(key: str, timeout: int) -> int:
    cache.add(key, 0, timeout)
    try:
        return cache.incr(key)
    except ValueError:  # the key was evicted in between
        cache.add(key, 0, timeout)
        return cache.incr(key)
