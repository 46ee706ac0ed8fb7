"""Counters of changes about which clients are notified."""

from collections.abc import Iterable
from typing import Any, ClassVar

from django.db import models

from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.safe_text import safe_text

FORGOTTEN = "forgotten"
"""The subject whose version is not below the version of any deleted subject. New subjects begin above it."""


class ChangeVersion(Row):
    """A counter for a subject, increased in the transaction that changes the subject.

    Server processes compare it with the version that they know. It only grows, even if the row is deleted in between.
    """

    subject = ExactCharField(max_length=255, primary_key=True)
    version = models.PositiveBigIntegerField(default=0)
    changed_at = UTCDateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [models.Index(fields=("changed_at",), name="mcp_change_changed")]

    def __str__(self) -> str:
        return safe_text(f"{self.subject} {self.version}")

    @classmethod
    def bump(cls, subject: str) -> None:
        """Count a change. Call this in the transaction that makes the change."""
        if not cls.bump_known([subject]):
            forgotten = cls.objects.filter(subject=FORGOTTEN).values_list("version", flat=True).first()
            cls.objects.get_or_create(subject=subject, defaults={"version": forgotten or 0})
            cls.bump_known([subject])

    @classmethod
    def bump_known(cls, subjects: Iterable[str]) -> int:
        """Count a change for each subject that has a row. Return their number."""
        count: dict[str, Any] = {"version": models.F("version") + 1, "changed_at": Now()}
        return cls.objects.filter(subject__in=list(subjects)).update(**count)
