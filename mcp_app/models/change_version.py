"""Counters of changes that clients are told of."""

from collections.abc import Iterable
from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Now

FORGOTTEN = "forgotten"
"""The `ChangeVersion` that is at least what any forgotten one was: others begin above it."""


class ChangeVersion(models.Model):
    """A counter bumped in the transaction that changes what it names; listeners compare it.

    It only grows, also across being forgotten: where there is none, there is nothing new.
    """

    subject = models.CharField(max_length=255, primary_key=True)
    version = models.PositiveBigIntegerField(default=0)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [models.Index(fields=("changed_at",), name="mcp_change_changed")]

    def __str__(self) -> str:
        return f"{self.subject} {self.version}"

    @classmethod
    def bump(cls, subject: str) -> None:
        """Count one change, inside the transaction that makes it."""
        if not cls.bump_known([subject]):
            forgotten = cls.objects.filter(subject=FORGOTTEN).values_list("version", flat=True).first()
            cls.objects.get_or_create(subject=subject, defaults={"version": forgotten or 0})
            cls.bump_known([subject])

    @classmethod
    def bump_known(cls, subjects: Iterable[str]) -> int:
        """The same for each of these that there is; how many there were."""
        count: dict[str, Any] = {"version": models.F("version") + 1, "changed_at": Now()}
        return cls.objects.filter(subject__in=list(subjects)).update(**count)
