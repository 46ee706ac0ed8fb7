"""Texts that came from outside, as they can be shown: what would hide, reverse or break a line is a visible sign."""

import re
from typing import Final

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def inert(text: object, limit: int | None = None) -> str:
    """`text` with its control characters and changes of direction made visible, at most `limit` characters of it."""
    whole = str(text)
    shown = whole if limit is None or len(whole) <= limit else whole[: limit - 1] + "…"
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)
