"""How values are shown to people, in the admin and at a terminal: times, numbers, JSON, texts of clients and tools.

Everything returned is inert: what would hide, reverse or break a line is shown as a visible sign. Markup is escaped by
whoever renders it.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from mcp_app.lifecycle.inert import inert

NOTHING: Final = "–"
TEXT_CHARS: Final = 20_000
"""How much of a text that came from outside is shown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text, inert, and how many characters of the text are not shown."""

    text: str
    hidden: int = 0


def excerpt(text: object, limit: int = TEXT_CHARS) -> Excerpt:
    """The first `limit` characters of `text`."""
    whole = str(text)
    return Excerpt(inert(whole[:limit]), max(0, len(whole) - limit))


def as_json(value: Any) -> str:
    """A JSON value for people, indented."""
    return inert(json.dumps(value, indent=2, ensure_ascii=False))


def json_excerpt(value: Any, limit: int = TEXT_CHARS) -> Excerpt:
    """The beginning of a JSON value, indented."""
    return excerpt(json.dumps(value, indent=2, ensure_ascii=False), limit)


def duration(seconds: float | None) -> str:
    """A length of time for people: `35 ms`, `1.2 s`, `2 min 5 s`, `3 h 12 min`."""
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
    """The time from `start` to `end`; clocks of two hosts may make it negative, which is shown as none."""
    return NOTHING if start is None or end is None else duration(max(0.0, (end - start).total_seconds()))


def moment(value: datetime | None, *, precise: bool = False) -> str:
    """A point in time in the site's current time zone, to the second or, if `precise`, to the millisecond."""
    if value is None:
        return NOTHING
    local = timezone.localtime(value)
    return local.isoformat(" ", "milliseconds" if precise else "seconds")[: 23 if precise else 19]


def number(value: float) -> str:
    """A finite number without needless digits: `3`, `0.25`, `1e+30`."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
