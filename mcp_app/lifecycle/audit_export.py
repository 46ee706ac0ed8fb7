"""The audit as a file: CSV for spreadsheets, JSON for programs; times are ISO 8601 in UTC.

Written while it is read, in bounded memory. As CSV it is UTF-8 with a mark, so that spreadsheets read it as such, and
refuses to be a program: no cell begins as a formula does, and control characters are written out. JSON has the values
as they are, and null for none.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from mcp_app.lifecycle.inert import inert
from mcp_app.models import Cancellation
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
"""In this order; every column is the model's field of that name."""


def as_csv(queryset: QuerySet[Cancellation]) -> Iterator[str]:
    """The file in parts of some rows each, newest first."""
    writer = csv.writer(_Echo())
    yield _MARK + writer.writerow(COLUMNS)
    for part in _parts(queryset):
        yield "".join(writer.writerow([cell(value) for value in row.values()]) for row in part)


def as_json(queryset: QuerySet[Cancellation]) -> Iterator[str]:
    """An array of objects, one a line, in parts of some rows each, newest first; ASCII."""
    between = "[\n"
    for part in _parts(queryset):
        yield between + ",\n".join(json.dumps(row) for row in part)
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


FORMATS: Final = {"csv": as_csv, "json": as_json}


def cell(value: object) -> str:
    """A value as a spreadsheet's text."""
    text = "" if value is None else inert(value)
    return f"'{text}" if text.startswith(_FORMULA) and isinstance(value, str) else text


class _Echo:
    """A file that hands each line back to whoever writes it."""

    def write(self, line: str) -> str:
        return line


def _parts(queryset: QuerySet[Cancellation]) -> Iterator[list[Mapping[str, Any]]]:
    """Each part is one query, so that a slow reader holds no cursor open."""
    # By number alone: SQLite compares times as texts, and what its `Now()` wrote is less than what is read of it.
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
