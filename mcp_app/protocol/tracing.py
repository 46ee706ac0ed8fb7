"""W3C trace context carried in `params._meta`: what is well-formed is kept, the rest dropped without a word.

Refuses to fail a request over it. Source: 2026-07-28 basic/index "OpenTelemetry trace context"; W3C Trace
Context, Baggage.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

_TRACEPARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-[\x21-\x7e]*)?"
)
_STATE_KEY: Final = r"(?:[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}|[a-z][a-z0-9_\-*/]{0,255})"
_STATE_MEMBER: Final = re.compile(rf"{_STATE_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a grammar rule of RFC 9110
_BAGGAGE_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_BAGGAGE_PAIR: Final = re.compile(rf"{_TOKEN}[ \t]*=[ \t]*{_BAGGAGE_VALUE}")
_BAGGAGE_PROPERTY: Final = re.compile(rf"{_TOKEN}(?:[ \t]*=[ \t]*{_BAGGAGE_VALUE})?")

MAX_STATE_MEMBERS: Final = 32
MAX_BAGGAGE_MEMBERS: Final = 64
MAX_VALUE_CHARS: Final = 8192


def read_trace_context(meta: Mapping[str, Any]) -> dict[str, str]:
    """The well-formed ones of `traceparent`, `tracestate` (never without its parent) and `baggage`."""
    context: dict[str, str] = {}
    texts = {
        key: value
        for key in ("traceparent", "tracestate", "baggage")
        if isinstance(value := meta.get(key), str) and len(value) <= MAX_VALUE_CHARS
    }
    if not texts:
        return context
    if _is_traceparent(texts.get("traceparent", "")):
        context["traceparent"] = texts["traceparent"]
        if _is_tracestate(texts.get("tracestate", "")):
            context["tracestate"] = texts["tracestate"]
    if _is_baggage(texts.get("baggage", "")):
        context["baggage"] = texts["baggage"]
    return context


def _is_traceparent(text: str) -> bool:
    found = _TRACEPARENT.fullmatch(text)
    return found is not None and not (found["version"] == "00" and found["more"])


def _is_tracestate(text: str) -> bool:
    members = [member.strip(" \t") for member in text.split(",") if member.strip(" \t")]
    keys = {member.partition("=")[0] for member in members}
    return 0 < len(members) == len(keys) <= MAX_STATE_MEMBERS and all(map(_STATE_MEMBER.fullmatch, members))


def _is_baggage(text: str) -> bool:
    members = text.split(",")
    return len(members) <= MAX_BAGGAGE_MEMBERS and all(map(_is_baggage_member, members))


def _is_baggage_member(text: str) -> bool:
    pair, *properties = (part.strip(" \t") for part in text.split(";"))
    return _BAGGAGE_PAIR.fullmatch(pair) is not None and all(map(_BAGGAGE_PROPERTY.fullmatch, properties))
