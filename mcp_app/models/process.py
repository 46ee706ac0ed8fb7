"""Server and worker processes."""

from django.db import models

from mcp_app.models.json_fields import StoredJSONField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.safe_text import safe_text
from mcp_app.states import ProcessRole


class Process(Row):
    """A server or worker process, with its heartbeat in database time."""

    boot_id = models.UUIDField(primary_key=True)
    role = models.CharField(max_length=16, choices=ProcessRole.choices)
    hostname = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    started_at = UTCDateTimeField(db_default=Now())
    heartbeat_at = UTCDateTimeField(db_default=Now())
    stopped_at = UTCDateTimeField(null=True)
    queues = StoredJSONField(default=list)
    """The queues that a worker consumes."""
    supervised_at = UTCDateTimeField(null=True)
    """The start of its last round of supervision."""

    class Meta:
        ordering = ("-started_at",)
        default_permissions = ()
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return safe_text(f"{self.role} {self.hostname}:{self.pid}")
