"""How often somebody may do something: a token bucket for each who does. Counts in this process only.

Refuses to read a clock: it is told the time, in seconds.
"""

from collections.abc import Hashable
from typing import Final

MAX_BUCKETS: Final = 1_024
"""Beyond this many, those that are full again are forgotten: they say nothing."""


class Rate:
    """At most `burst` at once, and `per_second` in the long run, for each key."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float, *, burst: float, per_second: float) -> bool:
        """Whether `key` may do it once more, now."""
        tokens, since = self._buckets.get(key, (burst, now))
        tokens = min(burst, tokens + (now - since) * per_second)
        if tokens < 1:
            return False
        self._buckets[key] = tokens - 1, now
        if len(self._buckets) > MAX_BUCKETS:
            self._forget_full(now, burst, per_second)
        return True

    def _forget_full(self, now: float, burst: float, per_second: float) -> None:
        self._buckets = {
            key: (tokens, since)
            for key, (tokens, since) in self._buckets.items()
            if tokens + (now - since) * per_second < burst
        }
