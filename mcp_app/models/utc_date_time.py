"""Times that are aware datetimes, whether or not the site uses time zones.

With `USE_TZ` off, Django returns datetimes without a time zone: on PostgreSQL in the site's `TIME_ZONE`, on the other
databases as they are stored, which is in UTC for the rows of this app.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.conf import settings
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import functions
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

_Set = TypeVar("_Set", contravariant=True)
_Get = TypeVar("_Get", covariant=True)

if TYPE_CHECKING:
    _DateTimeField = models.DateTimeField
else:

    class _DateTimeField(models.DateTimeField, Generic[_Set, _Get]):
        """Takes type arguments, which Django's fields do only for type checkers."""


class UTCDateTimeField(_DateTimeField[_Set, _Get]):
    """A `DateTimeField` with the same column and aware values on every site."""

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> list[Any]:
        return [] if settings.USE_TZ else [_from_database]

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        if value is not None and timezone.is_naive(value):
            return timezone.make_aware(value, timezone.get_default_timezone())  # as Django does with `USE_TZ` on
        return value

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        value = value if prepared else self.get_prep_value(value)
        if value is not None and not settings.USE_TZ and not connection.features.supports_timezones:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return super().get_db_prep_value(value, connection, prepared=True)


class Now(functions.Now):
    """Django's `Now()`, read as an aware datetime. On MySQL, Django's would be in the time zone of the connection."""

    output_field = UTCDateTimeField()

    def as_mysql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)


def to_aware(value: datetime, connection: BaseDatabaseWrapper) -> datetime:
    """Return a time that was read from the database as an aware datetime."""
    if timezone.is_aware(value):
        return value
    if connection.features.supports_timezones:
        # psycopg sets `fold`, so the hour that the end of summer repeats is not ambiguous.
        return value.replace(tzinfo=timezone.get_default_timezone()).astimezone(UTC)
    return value.replace(tzinfo=UTC)


def _from_database(value: datetime | None, expression: Any, connection: BaseDatabaseWrapper) -> datetime | None:
    return None if value is None else to_aware(value, connection)
