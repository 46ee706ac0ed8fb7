"""Django's types of values as JSON: the schema of each, and the way in and out.

Exact both ways: decimals go out as text, times in ISO 8601 and with their offset where the site has time zones.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime, parse_duration, parse_time
from django.utils.duration import duration_iso_string
from django.utils.translation import gettext as _

P = TypeVar("P")

MAX_INTEGER: Final = 2**63 - 1
"""Of a database column; some databases raise at what is larger, also where it is only compared."""
_LONGEST: Final = timedelta(microseconds=MAX_INTEGER)
"""Which is how some databases keep a duration."""
_NULL_CHARACTER: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""In JSON that escapes it, and not a backslash before these letters."""
DECIMAL_PATTERN: Final = r"^[+-]?[0-9]+(\.[0-9]+)?$"


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Kind:
    """One type: its JSON Schema, shared and never changed, and its values' way in and out."""

    schema: Mapping[str, Any]
    read: Callable[[Any], Any] = _same
    """From JSON that fits the schema. Raises ValueError with a sentence for the model."""
    write: Callable[[Any], Any] = _same
    """To JSON, of anything but None."""

    def with_schema(self, **members: Any) -> "Kind":
        """The same kind, its schema narrowed by these members; those that are None or "" are left out."""
        said = {name: value for name, value in members.items() if value not in (None, "")}
        return replace(self, schema={**self.schema, **said})

    def or_null(self) -> "Kind":
        """The same kind, or null."""
        return Kind(nullable(self.schema), lambda value: None if value is None else self.read(value), self.to_json)

    def to_json(self, value: Any) -> Any:
        return None if value is None else self.write(value)

    def many(self, **members: Any) -> "Kind":
        """A list of them."""
        schema = {"type": "array", "items": dict(self.schema), **members}
        return Kind(
            schema, lambda values: [self.read(each) for each in values], lambda values: [*map(self.write, values)]
        )


def nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that null fits as well."""
    widened = dict(schema)
    if "enum" in widened:
        widened["enum"] = [*widened["enum"], None]
    if "type" in widened:
        types = widened["type"] if isinstance(widened["type"], list) else [widened["type"]]
        widened["type"] = [*types, "null"]
    return widened


def _text(value: str) -> str:
    if "\x00" in value:
        raise ValueError(_("Null characters are not allowed."))
    return value


def _json_text(value: Any) -> str:
    text = json.dumps(value)
    if _NULL_CHARACTER.search(text):  # PostgreSQL stores none in JSON either, and its error names no field
        raise ValueError(_("Null characters are not allowed."))
    return text


def _integer(value: float) -> int:
    whole = int(value)  # to JSON Schema 5.0 is an integer
    if abs(whole) > MAX_INTEGER:
        raise ValueError(_("The number is too large."))
    return whole


def _decimal(value: str | float) -> Decimal:
    return Decimal(str(value))


def _parsed(parse: Callable[[str], P | None], complaint: str) -> Callable[[str], P]:
    def read(text: str) -> P:
        try:
            found = parse(text)
        except (ValueError, OverflowError):
            found = None
        if found is None:
            raise ValueError(complaint)
        return found

    return read


def _moment(text: str) -> datetime | None:
    """Without an offset it is in the current time zone, as in Django's forms."""
    if (found := parse_datetime(text)) is None:
        return None
    if settings.USE_TZ and timezone.is_naive(found):
        found = timezone.make_aware(found)
    elif not settings.USE_TZ and timezone.is_aware(found):
        found = timezone.make_naive(found)
    if timezone.is_aware(found):
        found.astimezone(UTC)  # OverflowError at the ends of the calendar, where databases would meet it
    return found


def _write_moment(value: datetime) -> str:
    return (timezone.localtime(value) if timezone.is_aware(value) else value).isoformat()


def _iso(value: date | time) -> str:
    return value.isoformat()


def _duration(text: str) -> timedelta | None:
    found = parse_duration(text)
    if found is not None and abs(found) > _LONGEST:
        raise OverflowError
    return found


def _write_duration(value: timedelta) -> str:
    return duration_iso_string(value)


ANYTHING: Final = Kind({})
TEXT: Final = Kind({"type": "string"}, _text, str)
INTEGER: Final = Kind({"type": "integer"}, _integer, int)
NUMBER: Final = Kind({"type": "number"}, float, float)
DECIMAL: Final = Kind({"type": ["string", "number"], "pattern": DECIMAL_PATTERN}, _decimal, str)
DECIMAL_TEXT: Final = Kind({"type": "string"}, _decimal, str)
"""As it goes out."""
BOOLEAN: Final = Kind({"type": "boolean"}, bool, bool)
DATE: Final = Kind(
    {"type": "string", "format": "date"}, _parsed(parse_date, "This is no date; write it as 2026-11-22."), _iso
)
MOMENT: Final = Kind(
    {"type": "string", "format": "date-time"},
    _parsed(_moment, "This is no date and time; write it as 2026-11-22T15:30:00Z."),
    _write_moment,
)
TIME: Final = Kind(
    {"type": "string", "format": "time"}, _parsed(parse_time, "This is no time; write it as 15:30:00."), _iso
)
DURATION: Final = Kind(
    {"type": "string", "format": "duration"},
    _parsed(_duration, "This is no duration; write it as P1DT2H30M."),
    _write_duration,
)
IDENTIFIER: Final = Kind({"type": "string", "format": "uuid"}, _parsed(UUID, "This is no UUID."), str)
JSON_TEXT: Final = Kind({}, _json_text)
"""Any JSON for one of Django's form fields, which parses text."""
