"""The history of requests."""

from typing import ClassVar

from django.db import models

from mcp_app.models.json_fields import StoredJSONField
from mcp_app.models.request import Request
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.states import EventKind


class RequestEvent(Row):
    """An event of a request: a transition, progress or a log line. Numbers begin at 1 and are not reused."""

    request = models.ForeignKey(Request, on_delete=models.CASCADE, related_name="events", db_index=False)
    """Without an index of its own, because the unique constraint has one that begins with this column."""
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=16, choices=EventKind.choices)
    data = StoredJSONField(default=dict)
    recorded_at = UTCDateTimeField(db_default=Now())

    class Meta:
        ordering = ("seq",)
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=("request", "seq"), name="mcp_event_request_seq"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.seq} {self.kind}"
