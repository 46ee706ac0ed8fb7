"""The rows of a published model as resources: `model://app.book/{pk}`, with completion of the keys.

The rights are those of its `get` tool.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.db import models

from mcp_app.auth.access import Access
from mcp_app.catalogue.completing import MAX_COMPLETIONS
from mcp_app.catalogue.sendable import encode
from mcp_app.derived import operations
from mcp_app.derived.layout import Layout
from mcp_app.resources import ResourceNotFound, Visit, resource

_LOOKED_AT: Final = 10 * MAX_COMPLETIONS
"""Rows that are asked about for one completion."""


def add(layout: Layout, location: str, access: Access) -> None:
    """Register the template."""
    model = layout.tools.model

    def read(pk: str, visit: Visit) -> str:
        found = _find(layout, pk, visit)
        if found is None:
            raise ResourceNotFound
        return encode(operations.shown(layout, found))

    def keys(value: str, context: Any, visit: Visit) -> Iterable[str]:
        return list(islice(_keys(layout, value, visit), MAX_COMPLETIONS + 1))

    read.__module__, _, read.__qualname__ = location.rpartition(".")
    resource(
        f"model://{model._meta.app_label}.{model._meta.model_name}/{{pk}}",
        name=str(model._meta.object_name),
        description=f"A {model._meta.verbose_name} by its primary key.",
        mime_type="application/json",
        completions={"pk": keys},
        permissions=access.permissions,
        groups=access.groups,
        scopes=access.scopes,
        endpoints=access.endpoints,
    )(read)


def _user(visit: Visit) -> Any:
    return visit.user or AnonymousUser()


def _find(layout: Layout, text: str, visit: Visit) -> Any:
    """The row whose key is written so: each row has one URI."""
    try:
        key = layout.tools.model._meta.pk.to_python(text)
        written = str(layout.key.write(key))
        layout.key.read(layout.key.write(key))
    except (ValidationError, ValueError, TypeError):
        return None
    return operations.find(layout, _user(visit), key) if written == text else None


def _keys(layout: Layout, value: str, visit: Visit) -> Iterable[str]:
    """The keys that begin with `value`, of rows that the caller may see."""
    if "\x00" in value:
        return
    tools, user = layout.tools, _user(visit)
    path, key = "pk", layout.tools.model._meta.pk
    while isinstance(key, models.ForeignKey):  # of an inheriting model, say: Django compares no text with a relation
        key = key.target_field
        path = f"{path}__{key.name}"
    rows = tools.get_queryset(user).filter(**{f"{path}__startswith": value}).order_by("pk")[:_LOOKED_AT]
    for row in rows:
        if tools.has_object_permission(user, "view", row):
            yield str(layout.key.write(row.pk))
