"""Export the audit to a file: CSV for spreadsheets, JSON for programs. Times are ISO 8601 in UTC.

The file is generated while it is sent, in bounded memory. CSV is UTF-8 with a byte order mark, so
that spreadsheets recognize the encoding. Cells are safe to open: one that would be a formula begins
with an apostrophe, and control characters are escaped. JSON has the unchanged values, and `null`
for missing ones.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from mcp_app.models import Cancellation
from mcp_app.safe_text import safe_text
from mcp_app.states import Stage

ROWS_AT_ONCE: Final = 1000
_MARK: Final = "\ufeff"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
COLUMNS: Final = (
    "requested_at",
    "request_id",
    "requested_id",
    "tool",
    "principal_label",
    "issuer",
    "subject",
    "client_id",
    "endpoint",
    "client_name",
    "cause",
    "actor",
    "actor_address",
    "reason",
    "part_of",
    "outcome",
    "status_before",
    "status_after",
    "stage",
    "stopped_at",
    "latency_ms",
    "settled_at",
    "attempt_id",
    "sealed_on",
    "seal_number",
    "seal",
)
"""The exported fields of the model, in this order."""


def as_csv(queryset: QuerySet[Cancellation]) -> Iterator[str]:
    """Yield the CSV file in parts of many rows, newest first."""
    writer = csv.writer(_Echo())
    yield _MARK + writer.writerow(COLUMNS)
    for part in _parts(queryset):
        yield "".join(writer.writerow([cell(value) for value in row.values()]) for row in part)


def as_json(queryset: QuerySet[Cancellation]) -> Iterator[str]:
    """Yield a JSON array in ASCII, one object a line, in parts of many rows, newest first."""
    between = "[\n"
    for part in _parts(queryset):
        yield between + ",\n".join(json.dumps(row) for row in part)
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


FORMATS: Final = {"csv": as_csv, "json": as_json}


def cell(value: object) -> str:
    """Return a value as the text of a spreadsheet's cell."""
    text = "" if value is None else safe_text(value)
    return f"'{text}" if text.startswith(_FORMULA) and isinstance(value, str) else text


class _Echo:
    """A file whose `write` returns the line, so that `csv.writer` returns it to its caller."""

    def write(self, line: str) -> str:
        return line


def _parts(queryset: QuerySet[Cancellation]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the rows in parts. Each part is a query, so that a slow reader keeps no cursor open."""
    # Ordered by key alone. SQLite compares times as texts, and a value that its `Now()` has written
    # is less than the same value after Django has read it.
    rows = queryset.order_by("-pk").values_list(*COLUMNS, "pk")
    following = rows
    while part := list(following[:ROWS_AT_ONCE]):
        yield [{name: _plain(name, value) for name, value in zip(COLUMNS, values, strict=True)} for *values, _ in part]
        following = rows.filter(pk__lt=part[-1][-1])


def _plain(name: str, value: Any) -> Any:
    if name == "stage":
        return str(Stage(value).label)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, (UUID, date)) else value
