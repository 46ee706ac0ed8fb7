"""Format values for people: times, numbers, JSON, and texts from outside.

All results are safe to show: invisible and control characters are escaped (`safe_text`). They are
not HTML; the templates escape them.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from mcp_app.safe_text import safe_text

NOTHING: Final = "–"
TEXT_CHARS: Final = 20_000
"""How many characters of a text from outside are shown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text, safe to show, and the number of characters that are left out."""

    text: str
    hidden: int = 0


def excerpt(text: object, limit: int = TEXT_CHARS) -> Excerpt:
    """Return the first `limit` characters of `text`."""
    whole = str(text)
    return Excerpt(safe_text(whole[:limit]), max(0, len(whole) - limit))


def as_json(value: Any) -> str:
    """Return a JSON value, indented."""
    return safe_text(json.dumps(value, indent=2, ensure_ascii=False))


def json_excerpt(value: Any, limit: int = TEXT_CHARS) -> Excerpt:
    """Return the beginning of a JSON value, indented."""
    return excerpt(json.dumps(value, indent=2, ensure_ascii=False), limit)


def duration(seconds: float | None) -> str:
    """Return a duration such as `35 ms`, `1.2 s`, `2 min 5 s` or `3 h 12 min`."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def between(start: datetime | None, end: datetime | None) -> str:
    """Return the duration from `start` to `end`. Negative durations become 0."""
    return NOTHING if start is None or end is None else duration(max(0.0, (end - start).total_seconds()))


def moment(value: datetime | None, *, precise: bool = False) -> str:
    """Return a time in the current time zone, to the second, or to the millisecond if `precise`."""
    if value is None:
        return NOTHING
    local = timezone.localtime(value) if timezone.is_aware(value) else value  # another app's, with `USE_TZ` off
    return local.isoformat(" ", "milliseconds" if precise else "seconds")[: 23 if precise else 19]


def number(value: float) -> str:
    """Return a finite number without unnecessary digits: `3`, `0.25`, `1e+30`."""
    value = float(value)  # an `int` has no `is_integer` before Python 3.12
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
