"""The durations of an ended request, and histograms of many.

A histogram has five buckets to a factor of ten: few enough to be kept for ever, fine enough for a
median.
"""

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final

from mcp_app.models import Request
from mcp_app.states import Status

COLUMNS: Final = (
    "status", "queued_at", "claimed_at", "cancel_requested_at", "finished_at", "questions",
)  # fmt: skip
"""The columns that `Durations.of` reads."""
UPPER_BOUNDS: Final = tuple(
    round(step * 10.0**power, 6) for power in range(-3, 5) for step in (1.0, 1.6, 2.5, 4.0, 6.3)
)
"""The upper bounds of all buckets but the last, in seconds: 1 ms to 17.5 hours."""
NO_DURATION: Final = -1
"""The bucket of requests that had no duration, because they did not run."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How many seconds an ended request waited, ran, and took to stop; `None` if it did not.

    If the request asked its client, only the last wait and the last run count.
    """

    wait: float | None
    run: float | None
    stop: float | None

    @classmethod
    def of(cls, row: Request) -> "Durations":
        claimed, finished = row.claimed_at, row.finished_at
        is_asking = bool(row.questions)  # closed while it waited for its client, which is not a run
        return cls(
            wait=_seconds(row.queued_at, claimed),
            run=None if is_asking else _seconds(claimed, finished),
            stop=_seconds(row.cancel_requested_at, finished) if row.status == Status.CANCELLED else None,
        )


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return None if begin is None or end is None else max(0.0, (end - begin).total_seconds())


def bucket_of(seconds: float | None) -> int:
    """Return the first bucket whose upper bound a duration does not exceed."""
    return NO_DURATION if seconds is None else bisect_left(UPPER_BOUNDS, seconds)


class Histogram:
    """How many durations are in each bucket, and their sum."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, float]] = {}

    def add(self, bucket: int, count: int, seconds: float) -> None:
        """Add `count` durations, which are `seconds` together. Ignores `NO_DURATION`."""
        if bucket != NO_DURATION and count:
            number, total = self._held.get(bucket, (0, 0.0))
            self._held[bucket] = (number + count, total + seconds)

    @property
    def count(self) -> int:
        return sum(number for number, _ in self._held.values())

    def quantile(self, share: float) -> float | None:
        """Return the seconds that this share (0-1) of the durations does not exceed.

        The result is exact if its bucket has one duration. Otherwise it is off by at most the width
        of the bucket, a factor of 1.6. Return `None` if there are no durations.
        """
        rank = max(1, ceil(share * self.count - 1e-9))
        for bucket, (number, total) in sorted(self._held.items()):
            if rank <= number:
                return _within(bucket, rank / (number + 1), total / number)
            rank -= number
        return None


def _within(bucket: int, place: float, mean: float) -> float:
    """Estimate the duration at a place (0-1) of a bucket.

    Assumes that half of the durations in the bucket are below their mean.
    """
    lower = UPPER_BOUNDS[bucket - 1] if bucket else min(mean, UPPER_BOUNDS[0] / 1.6)
    if bucket >= len(UPPER_BOUNDS):
        return max(mean, lower)
    upper = UPPER_BOUNDS[bucket]
    middle = min(max(mean, lower), upper)
    edge = lower if place < 0.5 else upper
    return middle + abs(2 * place - 1) * (edge - middle)
