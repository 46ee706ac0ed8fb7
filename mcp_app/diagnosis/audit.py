"""Check the audit: how far its sealing is behind."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Count, Min

from mcp_app.diagnosis.examination import Finding, SharedFacts, ok, warning
from mcp_app.lifecycle.audit import sealing
from mcp_app.models.utc_date_time import Now

NAME: Final = "audit"
LATE_SECONDS: Final = 300.0
"""After so many seconds, an unsealed row is a warning. Supervision usually seals within seconds."""


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check how many final rows are not sealed, and since when."""
    final = sealing.unsealed().filter(settled_at__isnull=False).order_by()
    counted = final.aggregate(count=Count("pk"), oldest=Min("settled_at"), now=Min(Now()))
    if not counted["count"]:
        yield ok(NAME, "All ended cancellations are sealed.")
        return
    late = (counted["now"] - counted["oldest"]).total_seconds()
    found = f"Ended cancellations that are not sealed yet: {counted['count']}, the oldest for {max(0.0, late):.0f} s."
    if late < LATE_SECONDS:
        yield ok(NAME, found)
        return
    remedy = "Run `python manage.py mcp supervise --once`, read its log, and keep a worker or a supervisor running."
    yield warning(NAME, found, remedy)
