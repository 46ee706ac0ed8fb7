"""The rows of a published model as resources, `model://app.book/{pk}`, with completion of the keys.

Their rights are those of the `get` tool.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.db import models

from mcp_app.auth.principal import Access
from mcp_app.catalogue.completion import MAX_COMPLETIONS
from mcp_app.catalogue.content.blocks import encode
from mcp_app.derived import operations
from mcp_app.derived.layout import Layout
from mcp_app.resources import ReadContext, ResourceNotFound, resource

_LOOKED_AT: Final = 10 * MAX_COMPLETIONS
"""Maximum rows that are read for one completion."""


def add(layout: Layout, location: str, access: Access) -> None:
    """Register the resource template of a published model."""
    model = layout.tools.model

    def read(pk: str, visit: ReadContext) -> str:
        found = _find(layout, pk, visit)
        if found is None:
            raise ResourceNotFound
        return encode(operations.shown(layout, found))

    def keys(value: str, context: Any, visit: ReadContext) -> Iterable[str]:
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


def _user(visit: ReadContext) -> Any:
    return visit.user or AnonymousUser()


def _find(layout: Layout, text: str, visit: ReadContext) -> Any:
    """Return the row with the key `text`, or `None`.

    The text must be the key's canonical form, so that each row has one URI.
    """
    try:
        key = layout.tools.model._meta.pk.to_python(text)
        written = str(layout.key.write(key))
        layout.key.read(layout.key.write(key))
    except (ValidationError, ValueError, TypeError):
        return None
    return operations.find(layout, _user(visit), key) if written == text else None


def _keys(layout: Layout, value: str, visit: ReadContext) -> Iterable[str]:
    """Yield the keys that begin with `value`, of rows that the caller may see."""
    if "\x00" in value:
        return
    tools, user = layout.tools, _user(visit)
    path, key = "pk", layout.tools.model._meta.pk
    while isinstance(key, models.ForeignKey):  # as in model inheritance: relations have no text lookups
        key = key.target_field
        path = f"{path}__{key.name}"
    rows = tools.get_queryset(user).filter(**{f"{path}__startswith": value}).order_by("pk")[:_LOOKED_AT]
    for row in rows:
        if tools.has_object_permission(user, "view", row):
            yield str(layout.key.write(row.pk))
