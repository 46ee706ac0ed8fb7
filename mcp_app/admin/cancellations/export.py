"""Export the list of cancellations as a CSV file, which is streamed instead of built in memory."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from mcp_app.lifecycle.audit import export
from mcp_app.models import Cancellation


def response(request: HttpRequest, queryset: QuerySet[Cancellation]) -> StreamingHttpResponse:
    """Return `queryset`, newest first, as a download."""
    parts = export.as_csv(queryset)
    # Under the other protocol's kind of iterator Django would read everything before it sends anything.
    content = _asynchronously(parts) if isinstance(request, ASGIRequest) else parts
    name = f"cancellations-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type="text/csv; charset=utf-8", headers=headers)


async def _asynchronously(parts: Iterator[str]) -> AsyncIterator[str]:
    following: Callable[[], Any] = sync_to_async(lambda: next(parts, None))
    while (part := await following()) is not None:
        yield part
