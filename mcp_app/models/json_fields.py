"""JSON whose objects keep the order of their members."""

import json
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class OrderedJSONField(models.JSONField):
    """JSON that keeps the order of members, for example of the fields of a form.

    On PostgreSQL it is stored as text, because `jsonb` sorts members. It cannot be searched there.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return "text" if connection.vendor == "postgresql" else super().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor == "postgresql":
            return json.dumps(value, cls=self.encoder)
        return super().get_db_prep_value(value, connection, prepared)
