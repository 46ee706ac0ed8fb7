"""Check texts with a fixed form: URIs, MIME types, Base64, times, names of `_meta` members.

A URI is only a text. It is not fetched, resolved or normalised, and two URIs name the same resource
if they are equal. Source: RFC 3986; 2026-07-28 basic/index "Icons", "General fields"; schema
`Annotations`, `ImageContent`.
"""

import base64
import binascii
import re
from datetime import datetime
from typing import Final, TypeGuard

MAX_URI_CHARS: Final = 2_048

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
_MIME_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)
_ICON_SCHEMES: Final = ("https://", "data:")
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_META_KEY: Final = re.compile(
    rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
_RESERVED_LABELS: Final = frozenset({"mcp", "modelcontextprotocol"})
"""As the second label of a prefix, these are reserved for the protocol."""


def is_uri(text: object) -> TypeGuard[str]:
    """Return whether `text` is an absolute URI of limited length, in the characters of RFC 3986."""
    return isinstance(text, str) and len(text) <= MAX_URI_CHARS and _URI.fullmatch(text) is not None


def is_mime_type(text: object) -> bool:
    return isinstance(text, str) and _MIME_TYPE.fullmatch(text) is not None


def is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_time(text: str) -> bool:
    """Return whether `text` is a time in ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_icon_source(text: str) -> bool:
    return text.lower().startswith(_ICON_SCHEMES)


def is_meta_key(text: str) -> bool:
    """Return whether anyone but the protocol itself may use this name for a member of `_meta`."""
    if not text or (found := _META_KEY.fullmatch(text)) is None:
        return False
    labels = (found["prefix"] or "").lower().split(".")
    return len(labels) < 2 or labels[1] not in _RESERVED_LABELS
