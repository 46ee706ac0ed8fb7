"""Counters of changes that clients are told of."""

from django.db import models

TOOL_LIST = "tools"
"""The `ChangeVersion` of the list of tools."""


class ChangeVersion(models.Model):
    """A counter bumped in the transaction that changes what it names; listeners compare it."""

    subject = models.CharField(max_length=255, primary_key=True)
    version = models.PositiveBigIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.subject} {self.version}"

    @classmethod
    def bump(cls, subject: str) -> None:
        """Count one change, inside the transaction that makes it."""
        cls.objects.get_or_create(subject=subject)
        cls.objects.filter(subject=subject).update(version=models.F("version") + 1)
