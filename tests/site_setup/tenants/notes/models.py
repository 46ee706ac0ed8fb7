from django.db import models


class Note(models.Model):
    """A note of one tenant."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text
