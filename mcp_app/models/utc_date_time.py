"""The database's current time."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import functions
from django.db.models.sql.compiler import SQLCompiler


class Now(functions.Now):
    """The database's current time in UTC. On MySQL, Django's `Now` returns it in the time zone of the connection."""

    def as_mysql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)
