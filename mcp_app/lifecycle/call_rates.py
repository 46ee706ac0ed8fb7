"""How often one caller may call one tool: counted in Django's cache, by all processes that share it.

In windows that begin at whole minutes, hours or days, so that `add` and `incr` are enough, which caches do atomically.
Refuses to guess: where the cache does not count, nobody knows whether the call is one too many.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from django.core.cache import cache

from mcp_app.auth.principal import Principal

_TEXT: Final = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_MARGIN_SECONDS: Final = 60
"""How much longer than its window a count is kept: clocks differ."""


@dataclass(frozen=True, slots=True)
class CallRate:
    """At most so many calls in each window of so many seconds."""

    calls: int
    seconds: float

    @classmethod
    def read(cls, text: str) -> "CallRate":
        """Of `10/m`: a number, and the first letter of second, minute, hour or day. Raises ValueError."""
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f'a rate is written as "10/m", by s, m, h or d, not {text!r}')
        return cls(int(found[1]), _SECONDS[found[2]])


class UncountableError(Exception):
    """The cache does not count."""


def of_caller(principal: Principal, remote_address: str, tool: str) -> tuple[str, ...]:
    """Who is counted for a call of a tool: an anonymous caller is one for each address."""
    return (*principal.columns.values(), "" if principal.subject else remote_address, tool)


def take(rate: CallRate, who: tuple[Any, ...], now: float) -> float:
    """0 where `who` may do it once more, now (seconds since the epoch), and has; else the seconds until it may.

    Raises UncountableError.
    """
    window, passed = divmod(now, rate.seconds)
    named = hashlib.sha256(json.dumps([*who, rate.seconds, window]).encode()).hexdigest()
    try:
        count = _count(f"mcp_app.rate.{named}", math.ceil(rate.seconds) + _MARGIN_SECONDS)
    except Exception as error:  # each cache has its own
        raise UncountableError(str(error) or type(error).__name__) from error
    return 0.0 if count <= rate.calls else rate.seconds - passed


def _count(key: str, timeout: int) -> int:
    cache.add(key, 0, timeout)
    try:
        return cache.incr(key)
    except ValueError:  # dropped in between
        cache.add(key, 0, timeout)
        return cache.incr(key)
