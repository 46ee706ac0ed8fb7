"""Texts whose form the protocol says: MIME types, Base64, times, where icons come from, names of `_meta` members.

Refuses to look at what they stand for. Source: 2026-07-28 basic/index "Icons", "General fields"; schema `Annotations`,
`ImageContent`.
"""

import base64
import binascii
import re
from datetime import datetime
from typing import Final

_MIME_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)
_ICON_SCHEMES: Final = ("https://", "data:")
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_META_KEY: Final = re.compile(
    rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
_RESERVED_LABELS: Final = frozenset({"mcp", "modelcontextprotocol"})
"""As the second of a prefix: the protocol's own."""


def is_mime_type(text: object) -> bool:
    return isinstance(text, str) and _MIME_TYPE.fullmatch(text) is not None


def is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_time(text: str) -> bool:
    """Whether it is a time as ISO 8601 has it."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_icon_source(text: str) -> bool:
    return text.lower().startswith(_ICON_SCHEMES)


def is_meta_key(text: str) -> bool:
    """Whether a member of `_meta` may be named so by anybody but the protocol itself."""
    if not text or (found := _META_KEY.fullmatch(text)) is None:
        return False
    labels = (found["prefix"] or "").lower().split(".")
    return len(labels) < 2 or labels[1] not in _RESERVED_LABELS
