"""The history of requests."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from mcp_app.models.request import Request
from mcp_app.states import EventKind


class RequestEvent(models.Model):
    """One thing that happened to a request: a transition, progress, a log line. Numbered from 1 without reuse."""

    request = models.ForeignKey(Request, on_delete=models.CASCADE, related_name="events", db_index=False)
    """Its own index would be the constraint's once more, and written with each event."""
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=16, choices=EventKind.choices)
    data = models.JSONField(default=dict)
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("seq",)
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=("request", "seq"), name="mcp_event_request_seq"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.seq} {self.kind}"
