"""The JSON columns of this app."""

import json
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class StoredJSONField(models.JSONField):
    """JSON of any depth. On MariaDB it is stored as text, because MariaDB's own JSON has at most 32 levels."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return "longtext" if _is_mariadb(connection) else super().db_type(connection)

    def db_check(self, connection: BaseDatabaseWrapper) -> str | None:
        return None if _is_mariadb(connection) else super().db_check(connection)


class OrderedJSONField(StoredJSONField):
    """JSON that keeps the order of members, for example of the fields of a form.

    On PostgreSQL and MySQL it is stored as text, because their JSON sorts members. It cannot be searched there.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        types = {"postgresql": "text", "mysql": "longtext"}
        return types.get(connection.vendor) or super().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor == "postgresql":
            return json.dumps(value, cls=self.encoder)
        return super().get_db_prep_value(value, connection, prepared)


def _is_mariadb(connection: BaseDatabaseWrapper) -> bool:
    return connection.vendor == "mysql" and bool(connection.mysql_is_mariadb)  # type: ignore[attr-defined]
