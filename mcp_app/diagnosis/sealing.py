"""The audit: how far its sealing is behind what is final."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Count, Min
from django.db.models.functions import Now

from mcp_app.diagnosis.examination import Seen
from mcp_app.diagnosis.findings import Finding, ok, warning
from mcp_app.lifecycle import sealing

NAME: Final = "audit"
LATE_SECONDS: Final = 300.0
"""Supervision seals within seconds, some two thousand rows a round."""


def look(seen: Seen) -> Iterator[Finding]:
    """What is final and not sealed: how many, and since when."""
    final = sealing.unsealed().filter(settled_at__isnull=False).order_by()
    counted = final.aggregate(count=Count("pk"), oldest=Min("settled_at"), now=Min(Now()))
    if not counted["count"]:
        yield ok(NAME, "All that is final is sealed.")
        return
    late = (counted["now"] - counted["oldest"]).total_seconds()
    found = f"Of what is final {counted['count']} not sealed, the oldest for {max(0.0, late):.0f} s."
    if late < LATE_SECONDS:
        yield ok(NAME, found)
        return
    remedy = "Run `python manage.py mcp supervise --once`, look what it logs, and have a worker or a supervisor run."
    yield warning(NAME, found, remedy)
