from django.db import models


class Entry(models.Model):
    """A line of the ledger."""

    text = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.text
