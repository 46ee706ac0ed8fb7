"""The row that `transaction` locks while it sleeps."""

from django.db import models


class LockedRow(models.Model):
    """A counter of committed calls of `transaction` and `move_counter`."""

    commits = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.commits} commits"
