"""One row to lock: what `transaction` holds while it sleeps."""

from django.db import models


class LockedRow(models.Model):
    """A counter that only a committed `transaction` moves."""

    commits = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.commits} commits"
