"""The audit of cancellations, and the last seal of each of its days. Rows cannot be changed or deleted.

A migration that rebuilds these tables on SQLite drops their triggers, and must run `0002_audit_triggers` again.
"""

import uuid
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from django.db import connections, models
from django.utils.translation import gettext_lazy as _

from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.row import Row, RowManager
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.safe_text import safe_text
from mcp_app.states import Cause, Outcome, Stage, Status


class AppendOnlyError(TypeError):
    """Raised on an attempt to change or delete a row of the audit."""


class CancellationQuerySet(models.QuerySet["Cancellation"]):
    def update(self, **kwargs: Any) -> int:
        raise AppendOnlyError("audit rows cannot be changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows cannot be deleted")

    def settle(self, **values: Any) -> int:
        """Write how an accepted cancellation ended. This can be done once."""
        return super().filter(settled_at__isnull=True)._settle(values)

    def seal(self, rows: Iterable["Cancellation"]) -> None:
        """Write the seals of `rows`."""
        connection = connections[self.db]
        sealed = [
            (connection.ops.adapt_datefield_value(row.sealed_on), row.seal_number, row.seal, row.pk) for row in rows
        ]
        table = connection.ops.quote_name(self.model._meta.db_table)
        with connection.cursor() as cursor:
            cursor.executemany(
                f"UPDATE {table} SET sealed_on = %s, seal_number = %s, seal = %s WHERE id = %s",  # noqa: S608 - the model's table
                sealed,
            )

    def purge(self) -> int:
        """Delete rows of days that are marked as purged, and return their number. A trigger protects all others."""
        return super().delete()[0]

    def _settle(self, values: dict[str, Any]) -> int:
        return super().update(**values)


CancellationManager = RowManager.from_queryset(CancellationQuerySet)


class Cancellation(Row):
    """An attempt to cancel a request. `settle` completes it once; from `settled_at` on it does not change.

    `signature` proves that this app wrote the row, and `seal` that no earlier row is missing
    (`lifecycle.audit.signatures`).
    """

    attempt_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    request_id = models.UUIDField(null=True, db_index=True)
    requested_id = models.CharField(max_length=255, blank=True, default="", help_text=_("an unknown id"))
    tool = ExactCharField(max_length=128, blank=True, default="")
    issuer = ExactCharField(max_length=255, blank=True, default="")
    subject = ExactCharField(max_length=255, blank=True, default="")
    client_id = ExactCharField(max_length=255, blank=True, default="")
    endpoint = ExactCharField(max_length=64, blank=True, default="", help_text=_("of the request"))
    principal_label = models.CharField(max_length=255, blank=True, default="")
    client_name = models.CharField(max_length=255, blank=True, default="")
    cause = models.CharField(max_length=16, choices=Cause.choices)
    actor = models.CharField(max_length=255)
    actor_address = models.CharField(max_length=64, blank=True, default="")
    reason = models.CharField(max_length=1024, blank=True, default="")
    part_of = models.CharField(
        max_length=255, blank=True, default="", help_text=_("the cancellations that belong to the same act")
    )
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    status_before = models.CharField(max_length=16, choices=Status.choices, blank=True, default="")
    status_after = models.CharField(max_length=16, choices=Status.choices, blank=True, default="")
    stage = models.PositiveSmallIntegerField(choices=Stage.choices, default=Stage.NONE)
    requested_at = UTCDateTimeField(db_default=Now())
    stopped_at = UTCDateTimeField(null=True)
    latency_ms = models.FloatField(null=True, help_text=_("time from the cancellation to the end"))
    settled_at = UTCDateTimeField(null=True)
    signature = models.CharField(max_length=64, blank=True, default="")
    sealed_on = models.DateField(null=True, help_text=_("the day whose chain contains it"))
    seal_number = models.PositiveIntegerField(null=True, help_text=_("its position in that chain, from 1"))
    seal = models.CharField(max_length=64, blank=True, default="")

    objects: ClassVar["CancellationManager[Self]"] = CancellationManager()

    class Meta:
        ordering = ("-requested_at", "-pk")
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=("-requested_at",), name="mcp_cancellation_requested"),
            models.Index(fields=("requested_id",), name="mcp_cancellation_unknown"),
            models.Index(fields=("cause", "-requested_at"), name="mcp_cancellation_cause"),
            models.Index(fields=("tool", "-requested_at"), name="mcp_cancellation_tool"),
            models.Index(fields=("actor", "-requested_at"), name="mcp_cancellation_actor"),
            models.Index(fields=("outcome", "-requested_at"), name="mcp_cancellation_outcome"),
            models.Index(fields=("stage", "-requested_at"), name="mcp_cancellation_stage"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=("sealed_on", "seal_number"), name="mcp_cancellation_seal"),
        ]

    def __str__(self) -> str:
        return safe_text(f"{self.cause} {self.outcome} {self.request_id or self.requested_id}")

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError("audit rows cannot be changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows cannot be deleted")


class AuditDay(Row):
    """The number of attempts that were sealed on a day, and the last seal. It is kept when the rows are purged."""

    day = models.DateField(primary_key=True, help_text=_("UTC"))
    origin = models.CharField(max_length=64, blank=True, default="", help_text=_("the last seal of the previous day"))
    count = models.PositiveIntegerField(default=0)
    head = models.CharField(max_length=64)
    purged_at = UTCDateTimeField(null=True, help_text=_("the time from which its attempts may be deleted"))
    signature = models.CharField(max_length=64)

    class Meta:
        ordering = ("day",)
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.day}:{self.count}:{self.head}"
