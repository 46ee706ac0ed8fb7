"""Durations in buckets, five to a factor of ten: few enough to be kept for ever, fine enough for a median.

Pure arithmetic; refuses to know what was measured.
"""

from bisect import bisect_left
from math import ceil
from typing import Final

UPPER_BOUNDS: Final = tuple(
    round(step * 10.0**power, 6) for power in range(-3, 5) for step in (1.0, 1.6, 2.5, 4.0, 6.3)
)
"""Seconds, of each bucket but the last, which has all above: 1 ms to 17.5 hours."""
NONE: Final = -1
"""The bucket of what had no duration."""


def bucket_of(seconds: float) -> int:
    """The bucket of a duration: the first whose upper bound it does not exceed."""
    return bisect_left(UPPER_BOUNDS, seconds)


class Histogram:
    """How many durations lay in each bucket, and how long they were together."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, float]] = {}

    def add(self, bucket: int, count: int, seconds: float) -> None:
        """So many more in a bucket, together so long. Those that had no duration are no length."""
        if bucket != NONE and count:
            number, length = self._held.get(bucket, (0, 0.0))
            self._held[bucket] = (number + count, length + seconds)

    @property
    def count(self) -> int:
        return sum(number for number, _ in self._held.values())

    def quantile(self, share: float) -> float | None:
        """The duration that this share (0-1) of them do not exceed, in seconds; None where there is none.

        Exact where its bucket has one; otherwise never off by more than the bucket is wide, a factor of 1.6.
        """
        rank = max(1, ceil(share * self.count - 1e-9))
        for bucket, (number, length) in sorted(self._held.items()):
            if rank <= number:
                return _within(bucket, rank / (number + 1), length / number)
            rank -= number
        return None


def _within(bucket: int, place: float, mean: float) -> float:
    """At a place (0-1) among those in a bucket, half of which are taken to be below their mean."""
    lower = UPPER_BOUNDS[bucket - 1] if bucket else min(mean, UPPER_BOUNDS[0] / 1.6)
    if bucket >= len(UPPER_BOUNDS):
        return max(mean, lower)
    upper = UPPER_BOUNDS[bucket]
    middle = min(max(mean, lower), upper)
    edge = lower if place < 0.5 else upper
    return middle + abs(2 * place - 1) * (edge - middle)
