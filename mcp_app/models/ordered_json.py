"""JSON whose objects keep the order of their members."""

import json
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class OrderedJSONField(models.JSONField):
    """What clients and tools say, as they said it: the fields of a form are shown in their order.

    PostgreSQL's `jsonb` sorts members, so there it is text, which cannot be searched by what is inside.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return "text" if connection.vendor == "postgresql" else super().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor == "postgresql":
            return json.dumps(value, cls=self.encoder)
        return super().get_db_prep_value(value, connection, prepared)
