"""How the admin shows values: times, JSON, and texts that came from clients and tools.

Everything returned is inert: markup is escaped by whoever renders it, and what would hide, reverse or break a line is
shown as a visible sign.
"""

import json
import re
from typing import Any, Final

from django.utils.html import format_html
from django.utils.safestring import SafeString

NOTHING: Final = "–"
_HIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def inert(text: object, limit: int | None = None) -> str:
    """`text` with its control characters and changes of direction made visible, at most `limit` characters of it."""
    whole = str(text)
    shown = whole if limit is None or len(whole) <= limit else whole[: limit - 1] + "…"
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)


def as_json(value: Any) -> str:
    """A JSON value for people, indented."""
    return inert(json.dumps(value, indent=2, ensure_ascii=False))


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


def badge(kind: str, label: object) -> SafeString:
    """A word with a colour of its own; `kind` is a value of `states`."""
    return format_html('<span class="mcp-badge mcp-{}">{}</span>', kind, label)
