"""Cancellations as CSV: UTF-8 with a mark, so that spreadsheets read it as such; times are ISO 8601 in UTC.

Written while it is read, in bounded memory. Refuses to be a program: no cell begins as a formula does, and control
characters are written out.
"""

import csv
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from mcp_app.admin.formatting import inert
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
    "client_name",
    "cause",
    "actor",
    "actor_address",
    "reason",
    "outcome",
    "status_before",
    "status_after",
    "stage",
    "stopped_at",
    "latency_ms",
    "settled_at",
)
"""The header; every column is the model's field of that name."""


def response(request: HttpRequest, queryset: QuerySet[Cancellation]) -> StreamingHttpResponse:
    """`queryset`, newest first, as a file to be kept."""
    # Under the other protocol's kind of iterator Django would read everything before it sends anything.
    content = _asynchronously(lines(queryset)) if isinstance(request, ASGIRequest) else lines(queryset)
    name = f"cancellations-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type="text/csv; charset=utf-8", headers=headers)


def lines(queryset: QuerySet[Cancellation]) -> Iterator[str]:
    """The file in parts of some rows each; each part is one query, so that a slow reader holds no cursor open."""
    writer = csv.writer(_Echo())
    yield _MARK + writer.writerow(COLUMNS)
    # By number alone: SQLite compares times as texts, and what its `Now()` wrote is less than what is read of it.
    rows = queryset.order_by("-pk").values_list(*COLUMNS, "pk")
    following = rows
    while part := list(following[:ROWS_AT_ONCE]):
        yield "".join(writer.writerow([cell(value) for value in values]) for *values, _ in part)
        following = rows.filter(pk__lt=part[-1][-1])


def cell(value: Any) -> str:
    """A value as a spreadsheet's text."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, float):
        return str(value)
    text = inert(Stage(value).label if isinstance(value, int) else value)
    return f"'{text}" if text.startswith(_FORMULA) else text


class _Echo:
    """A file that hands each line back to whoever writes it."""

    def write(self, line: str) -> str:
        return line


async def _asynchronously(parts: Iterator[str]) -> AsyncIterator[str]:
    following: Callable[[], Any] = sync_to_async(lambda: next(parts, None))
    while (part := await following()) is not None:
        yield part
