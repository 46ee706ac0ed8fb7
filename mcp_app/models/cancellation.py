"""The audit of cancellations. Refuses changes and deletions."""

from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from mcp_app.states import Cause, Outcome, Stage, Status


class AppendOnlyError(TypeError):
    """An audit row was to be changed or deleted. Audit rows are only ever added."""


class CancellationQuerySet(models.QuerySet["Cancellation"]):
    def update(self, **kwargs: Any) -> int:
        raise AppendOnlyError("audit rows cannot be changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows cannot be deleted")

    def settle(self, **values: Any) -> int:
        """Write how an accepted cancellation ended, once."""
        return super().filter(settled_at__isnull=True)._settle(values)

    def _settle(self, values: dict[str, Any]) -> int:
        return super().update(**values)


class Cancellation(models.Model):
    """The audit: one row for an attempt to cancel. `settled_at` seals it; until then only `settle` may complete it."""

    request_id = models.UUIDField(null=True, db_index=True)
    requested_id = models.CharField(max_length=255, blank=True, default="", help_text=_("an id nobody knows"))
    tool = models.CharField(max_length=128, blank=True, default="")
    issuer = models.CharField(max_length=255, blank=True, default="")
    subject = models.CharField(max_length=255, blank=True, default="")
    client_id = models.CharField(max_length=255, blank=True, default="")
    principal_label = models.CharField(max_length=255, blank=True, default="")
    client_name = models.CharField(max_length=255, blank=True, default="")
    cause = models.CharField(max_length=16, choices=Cause.choices)
    actor = models.CharField(max_length=255)
    actor_address = models.CharField(max_length=64, blank=True, default="")
    reason = models.CharField(max_length=1024, blank=True, default="")
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    status_before = models.CharField(max_length=16, choices=Status.choices, blank=True, default="")
    status_after = models.CharField(max_length=16, choices=Status.choices, blank=True, default="")
    stage = models.PositiveSmallIntegerField(choices=Stage.choices, default=Stage.NONE)
    requested_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True)
    latency_ms = models.FloatField(null=True, help_text=_("from requested to stopped"))
    settled_at = models.DateTimeField(null=True)

    objects = CancellationQuerySet.as_manager()

    class Meta:
        ordering = ("-requested_at", "-pk")
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=("-requested_at",), name="mcp_cancellation_requested"),
            models.Index(fields=("cause", "-requested_at"), name="mcp_cancellation_cause"),
            models.Index(fields=("tool", "-requested_at"), name="mcp_cancellation_tool"),
            models.Index(fields=("actor", "-requested_at"), name="mcp_cancellation_actor"),
            models.Index(fields=("outcome", "-requested_at"), name="mcp_cancellation_outcome"),
            models.Index(fields=("stage", "-requested_at"), name="mcp_cancellation_stage"),
        ]

    def __str__(self) -> str:
        return f"{self.cause} {self.outcome} {self.request_id or self.requested_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError("audit rows cannot be changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows cannot be deleted")
