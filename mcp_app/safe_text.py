"""Make texts from outside safe to show: escape invisible characters and control characters."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def safe_text(text: object, limit: int | None = None) -> str:
    """Return at most `limit` characters of `text`, with control characters escaped as `\\uXXXX`.

    Invisible characters and changes of the writing direction are escaped as well.
    """
    whole = str(text)
    shown = whole if limit is None or len(whole) <= limit else whole[: limit - 1] + "…"
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)


def safe_json_text(value: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """Return a value as JSON that is safe to show. Parsing it gives back the original value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
