"""The base of this app's models."""

from typing import Any, ClassVar, Self, TypeVar

from django.core.checks import CheckMessage
from django.db import models

from mcp_app.conf import settings

M = TypeVar("M", bound=models.Model)


class RowManager(models.Manager[M]):
    """Reads from the database to which this app writes, even if a router of the site sends reads to a replica.

    A replica lags behind: a new token would be refused, or a live process would count as dead. To read from a replica
    nevertheless, use `Request.objects.using("replica")`.
    """

    def get_queryset(self) -> models.QuerySet[M]:
        return super().get_queryset().using(self._db or settings.DATABASE)


class Row(models.Model):
    """A row of this app, in the database that `MCP["DATABASE"]` names."""

    objects: ClassVar[RowManager[Self]] = RowManager()

    class Meta:
        abstract = True

    @classmethod
    def check(cls, **kwargs: Any) -> list[CheckMessage]:
        """Leave out Django's warning that MySQL has no partial indexes. There the whole index is as useful."""
        return [message for message in super().check(**kwargs) if message.id != "models.W037"]
