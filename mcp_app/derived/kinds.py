"""Django's types of values as JSON: the schema of each type, and conversion in both directions.

No precision is lost: decimals are written as text, times in ISO 8601, with their offset if
`USE_TZ`.
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
"""Maximum of a database column. Some databases raise an error for larger values even in
comparisons."""
_LONGEST: Final = timedelta(microseconds=MAX_INTEGER)
"""Some databases store a duration as an integer of microseconds."""
_NULL_CHARACTER: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""Matches the escape in JSON, but not an escaped backslash before these letters."""
DECIMAL_PATTERN: Final = r"^[+-]?[0-9]+(\.[0-9]+)?$"


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A type of values: its JSON Schema and its conversions.

    Schemas are shared: do not change them.
    """

    schema: Mapping[str, Any]
    read: Callable[[Any], Any] = _same
    """Converts JSON that fits the schema. Raises ValueError with a sentence for the model."""
    write: Callable[[Any], Any] = _same
    """Converts a value other than `None` to JSON."""

    def with_schema(self, **members: Any) -> "ValueKind":
        """Return the same type with these members in its schema.

        Members that are `None` or "" are left out.
        """
        said = {name: value for name, value in members.items() if value not in (None, "")}
        return replace(self, schema={**self.schema, **said})

    def or_null(self) -> "ValueKind":
        """Return the same type, extended by null."""
        return ValueKind(nullable(self.schema), lambda value: None if value is None else self.read(value), self.to_json)

    def to_json(self, value: Any) -> Any:
        return None if value is None else self.write(value)

    def many(self, **members: Any) -> "ValueKind":
        """Return the type of a list of these values."""
        schema = {"type": "array", "items": dict(self.schema), **members}
        return ValueKind(
            schema, lambda values: [self.read(each) for each in values], lambda values: [*map(self.write, values)]
        )


def nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows null."""
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
    if _NULL_CHARACTER.search(text):  # PostgreSQL does not store it, and its error names no field
        raise ValueError(_("Null characters are not allowed."))
    return text


def _integer(value: float) -> int:
    whole = int(value)  # in JSON Schema, 5.0 is an integer
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
    """Parse a date and time.

    Without an offset it is in the current time zone, as in Django's forms.
    """
    if (found := parse_datetime(text)) is None:
        return None
    if settings.USE_TZ and timezone.is_naive(found):
        found = timezone.make_aware(found)
    elif not settings.USE_TZ and timezone.is_aware(found):
        found = timezone.make_naive(found)
    if timezone.is_aware(found):
        found.astimezone(UTC)  # raises OverflowError at the ends of the calendar, as databases would
    return found


def _write_moment(value: datetime) -> str:
    return (timezone.localtime(value) if timezone.is_aware(value) else timezone.make_aware(value)).isoformat()


def _iso(value: date | time) -> str:
    return value.isoformat()


def _duration(text: str) -> timedelta | None:
    found = parse_duration(text)
    if found is not None and abs(found) > _LONGEST:
        raise OverflowError
    return found


def _write_duration(value: timedelta) -> str:
    return duration_iso_string(value)


ANYTHING: Final = ValueKind({})
TEXT: Final = ValueKind({"type": "string"}, _text, str)
INTEGER: Final = ValueKind({"type": "integer"}, _integer, int)
NUMBER: Final = ValueKind({"type": "number"}, float, float)
DECIMAL: Final = ValueKind({"type": ["string", "number"], "pattern": DECIMAL_PATTERN}, _decimal, str)
DECIMAL_TEXT: Final = ValueKind({"type": "string"}, _decimal, str)
"""For output."""
BOOLEAN: Final = ValueKind({"type": "boolean"}, bool, bool)
DATE: Final = ValueKind(
    {"type": "string", "format": "date"}, _parsed(parse_date, "This is not a date; write it as 2026-11-22."), _iso
)
MOMENT: Final = ValueKind(
    {"type": "string", "format": "date-time"},
    _parsed(_moment, "This is not a date and time; write it as 2026-11-22T15:30:00Z."),
    _write_moment,
)
TIME: Final = ValueKind(
    {"type": "string", "format": "time"}, _parsed(parse_time, "This is not a time; write it as 15:30:00."), _iso
)
DURATION: Final = ValueKind(
    {"type": "string", "format": "duration"},
    _parsed(_duration, "This is not a duration; write it as P1DT2H30M."),
    _write_duration,
)
IDENTIFIER: Final = ValueKind({"type": "string", "format": "uuid"}, _parsed(UUID, "This is not a UUID."), str)
JSON_TEXT: Final = ValueKind({}, _json_text)
"""Any JSON, for Django's form field, which parses text."""
