"""Texts that came from outside, as they can be shown: what would hide, reverse or break a line is a visible sign."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def inert(text: object, limit: int | None = None) -> str:
    """`text` with its control characters and changes of direction made visible, at most `limit` characters of it."""
    whole = str(text)
    shown = whole if limit is None or len(whole) <= limit else whole[: limit - 1] + "…"
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)


def inert_json(value: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """A JSON value as JSON whose strings are `inert`: what they escape, a parser gets back."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
