"""Live processes."""

from django.db import models
from django.db.models.functions import Now

from mcp_app.states import ProcessRole


class Process(models.Model):
    """A live server or worker process, by its boot id; its heartbeat is database time."""

    boot_id = models.UUIDField(primary_key=True)
    role = models.CharField(max_length=16, choices=ProcessRole.choices)
    hostname = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True)
    supervised_at = models.DateTimeField(null=True)
    """When it began its last round of supervision."""

    class Meta:
        ordering = ("-started_at",)
        default_permissions = ()
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.role} {self.hostname}:{self.pid}"
