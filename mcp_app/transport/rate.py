"""How often somebody may do something: a token bucket for each who does. Counts in this process only.

Refuses to read a clock: it is told the time, in seconds.
"""

from collections.abc import Hashable
from typing import Final

MAX_BUCKETS: Final = 4_096
"""Beyond this many, those that were used longest ago are forgotten: most are full again, and say nothing."""


class Rate:
    """At most `burst` at once, and `per_second` in the long run, for each key."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float, *, burst: float, per_second: float) -> float:
        """0 where `key` may do it once more, now, and has; else the seconds until it may."""
        tokens, since = self._buckets.pop(key, (burst, now))
        tokens = min(burst, tokens + (now - since) * per_second)
        taken = tokens >= 1
        # The newest comes last, so that the first is the one to forget.
        self._buckets[key] = (tokens - 1 if taken else tokens), now
        if len(self._buckets) > MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if taken else (1 - tokens) / per_second
