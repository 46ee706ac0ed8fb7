"""Durations in buckets, five to a factor of ten: few enough to be kept for ever, fine enough for a median.

Pure arithmetic; refuses to know what was measured.
"""

from bisect import bisect_left
from collections.abc import Mapping
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


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """The duration that this share (0–1) of those counted by bucket do not exceed, in seconds; None where none is.

    Within its bucket it is interpolated as by a logarithmic scale; it is never off by more than the bucket is wide.
    """
    measured = {bucket: count for bucket, count in sorted(counts.items()) if bucket != NONE and count}
    rank = share * sum(measured.values())
    for bucket, count in measured.items():
        if rank <= count:
            return _within(bucket, rank / count)
        rank -= count
    return _within(max(measured), 1.0) if measured else None


def _within(bucket: int, share: float) -> float:
    if bucket >= len(UPPER_BOUNDS):
        return UPPER_BOUNDS[-1]
    upper = UPPER_BOUNDS[bucket]
    lower = UPPER_BOUNDS[bucket - 1] if bucket else upper / 1.6
    return float(lower * (upper / lower) ** share)
