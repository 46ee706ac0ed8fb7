"""A model's fields as JSON types, for the columns of a row and for its key.

Types without a counterpart in JSON are refused. Authors can publish a method for such a field.
"""

from decimal import Decimal
from typing import Any, Final

from django.core.exceptions import FieldDoesNotExist
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from mcp_app.derived import kinds
from mcp_app.derived.kinds import ValueKind

_BY_TYPE: Final["tuple[tuple[type[models.Field[Any, Any]], ValueKind], ...]"] = (
    (
        models.AutoField,
        kinds.INTEGER,
    ),  # Django makes the other automatic and integer fields instances of these
    (models.IntegerField, kinds.INTEGER),
    (models.BooleanField, kinds.BOOLEAN),
    (models.DecimalField, kinds.DECIMAL_TEXT),
    (models.FloatField, kinds.NUMBER),
    (models.DateTimeField, kinds.MOMENT),
    (models.DateField, kinds.DATE),
    (models.TimeField, kinds.TIME),
    (models.DurationField, kinds.DURATION),
    (models.UUIDField, kinds.IDENTIFIER),
    (models.JSONField, kinds.ANYTHING),
    (models.EmailField, kinds.TEXT.with_schema(format="email")),
    (models.URLField, kinds.TEXT.with_schema(format="uri")),
    (models.CharField, kinds.TEXT),
    (models.TextField, kinds.TEXT),
    (models.GenericIPAddressField, kinds.TEXT),
    (models.FilePathField, kinds.TEXT),
    (models.FileField, kinds.TEXT),
)


def kind_of(field: Any) -> ValueKind | None:
    """Return the type of a field's values without null; for a relation, that of its key.

    Return `None` if JSON has no such type.
    """
    if isinstance(field, models.ManyToManyField):
        return kind_of(field.remote_field.model._meta.pk)
    if isinstance(field, models.ForeignKey):
        return kind_of(field.target_field)
    if isinstance(field, models.GeneratedField):
        return kind_of(field.output_field)
    return next((kind for type_, kind in _BY_TYPE if isinstance(field, type_)), None)


def key_of(model: type[models.Model]) -> ValueKind:
    """Return the type of a model's primary key. Raises ValueError if JSON has no such type."""
    if (kind := kind_of(model._meta.pk)) is None:
        raise ValueError(f"the primary key of {model._meta.label} has no JSON type")
    return kind


def find(model: type[models.Model], name: str) -> Any:
    """Return a model's own field by name, or `None`. Reverse relations are not included."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    return field if field.concrete or (field.many_to_many and not field.auto_created) else None


def choices_of(field: Any) -> list[Any]:
    """Return the values that a field's choices allow, in order; empty if it has no choices."""
    return [value for value, _ in getattr(field, "flatchoices", ()) if value not in (None, "")]


def limits_of(field: Any) -> dict[str, Any]:
    """Return `minimum` and `maximum` from a field's validators, as members of a JSON Schema."""
    limits = dict[str, Any]()
    for validator in getattr(field, "validators", ()):
        limit = getattr(validator, "limit_value", None)
        if not isinstance(limit, int | float | Decimal) or isinstance(limit, bool):
            continue
        number = limit if isinstance(limit, int) else float(limit)
        if isinstance(validator, MinValueValidator):
            limits["minimum"] = max(number, limits.get("minimum", number))
        elif isinstance(validator, MaxValueValidator):
            limits["maximum"] = min(number, limits.get("maximum", number))
    return limits
