"""A form's fields as JSON Schema, and conversion of arguments to the values that the fields clean.

Widgets, prefixes and other parts of HTML forms are not used. Fields that JSON cannot fill (files)
or that take several inputs are refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.db.models import Field as ModelField
from django.utils.choices import CallableChoiceIterator
from django.utils.encoding import force_str

from mcp_app.derived import kinds, model_fields
from mcp_app.derived.kinds import ValueKind

_BY_TYPE: Final[tuple[tuple[type[forms.Field], ValueKind], ...]] = (
    (forms.JSONField, kinds.JSON_TEXT),
    (forms.UUIDField, kinds.IDENTIFIER),
    (forms.EmailField, kinds.TEXT.with_schema(format="email")),
    (forms.URLField, kinds.TEXT.with_schema(format="uri")),
    (forms.DecimalField, kinds.DECIMAL),
    (forms.FloatField, kinds.NUMBER),
    (forms.IntegerField, kinds.INTEGER),
    (forms.DateTimeField, kinds.MOMENT),
    (forms.DateField, kinds.DATE),
    (forms.TimeField, kinds.TIME),
    (forms.DurationField, kinds.DURATION),
    (forms.GenericIPAddressField, kinds.TEXT),
    (forms.CharField, kinds.TEXT),
)
_REFUSED: Final = (forms.FileField, forms.MultiValueField)


class UnusableFieldError(ValueError):
    """A form's field cannot be an argument. The message explains what to change."""


class ArgumentWidget(forms.Widget):
    """Takes the argument unchanged."""

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Any:
        return data.get(name)


def kind_of(name: str, field: forms.Field) -> ValueKind:
    """Return the type of the argument for a field. Raises `UnusableFieldError`."""
    kind = None if isinstance(field, _REFUSED) else _bare(name, field)
    if kind is None:
        raise UnusableFieldError(f"{name} is a {type(field).__name__}, which has no JSON form; leave it out")
    return kind.with_schema(description=_description(field), default=_default(kind, field))


def argument_of(name: str, field: forms.Field) -> ValueKind:
    """Return the type of a field's argument; optional arguments may also be null.

    Raises `UnusableFieldError`.
    """
    kind = kind_of(name, field)
    nullable = not field.required and not isinstance(field, forms.NullBooleanField | forms.MultipleChoiceField)
    return kind.or_null() if nullable and "type" in kind.schema else kind


def is_required(field: forms.Field) -> bool:
    """Return whether an argument is required.

    A field with an initial value is not: it gets that value.
    """
    return field.required and field.initial is None


def object_schema(arguments: Mapping[str, ValueKind], required: list[str]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    properties = {name: dict(kind.schema) for name, kind in arguments.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _bare(name: str, field: forms.Field) -> ValueKind | None:
    if isinstance(field, forms.ModelChoiceField):
        key = _related_key(field)
        return key.many(uniqueItems=True) if isinstance(field, forms.ModelMultipleChoiceField) else key
    if isinstance(field, forms.MultipleChoiceField):
        return ValueKind({"type": "array", "items": _enum(field, blank=False), "uniqueItems": True})
    if isinstance(field, forms.ChoiceField):
        return ValueKind(_enum(field, blank=not field.required))
    if isinstance(field, forms.NullBooleanField):
        return kinds.BOOLEAN.or_null()
    if isinstance(field, forms.BooleanField):
        return kinds.BOOLEAN.with_schema(const=True if field.required else None)
    kind = next((kind for type_, kind in _BY_TYPE if isinstance(field, type_)), None)
    return None if kind is None else _limited(kind, field)


def _limited(kind: ValueKind, field: forms.Field) -> ValueKind:
    if isinstance(field, forms.IntegerField):
        if callable(field.min_value) or callable(field.max_value):
            return kind
        return kind.with_schema(minimum=_number(field.min_value), maximum=_number(field.max_value))
    if isinstance(field, forms.CharField) and kind.read is kinds.TEXT.read:
        least = max(field.min_length or 0, 1 if field.required else 0)
        return kind.with_schema(minLength=least or None, maxLength=field.max_length)
    return kind


def _number(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else float(value)


def _related_key(field: "forms.ModelChoiceField[Any]") -> ValueKind:
    assert field.queryset is not None
    options = field.queryset.model._meta
    key: ModelField[Any, Any] = options.get_field(field.to_field_name) if field.to_field_name else options.pk
    if (kind := model_fields.kind_of(key)) is None:
        raise UnusableFieldError(f"a key of {options.label} has no JSON type")
    return kind


def _enum(field: forms.ChoiceField, *, blank: bool) -> dict[str, Any]:
    values = [value for value, _ in _choices(field)]
    if isinstance(field.choices, CallableChoiceIterator):
        return {"type": ["string", "number"]}
    if not values or not all(isinstance(value, str | int | float) for value in values):
        return {"type": "string"}
    return {"enum": [*values, *([""] if blank else [])]}


def _says_more(value: Any, label: Any) -> bool:
    return str(value).replace("_", " ").casefold() != str(label).casefold()


def _choices(field: forms.ChoiceField) -> list[tuple[Any, Any]]:
    """Return the values and labels of all groups, without the empty choice.

    Return none if they are callable.
    """
    found: list[tuple[Any, Any]] = []
    choices: Any = field.choices  # reading it makes pairs of them
    if isinstance(choices, CallableChoiceIterator):  # reads the database; may differ at a call
        return found
    for value, label in choices:
        found.extend(label if isinstance(label, list | tuple) else [(value, label)])
    return [(value, label) for value, label in found if value not in (None, "")]


def _description(field: forms.Field) -> str:
    """Return the help text, and the labels of choices that differ from their values."""
    said = [force_str(field.help_text)] if field.help_text else []
    if isinstance(field, forms.ChoiceField) and not isinstance(field, forms.ModelChoiceField):
        labels = [f"{value}: {label}" for value, label in _choices(field) if _says_more(value, label)]
        said += ["; ".join(labels)] if labels else []
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in said)


def _default(kind: ValueKind, field: forms.Field) -> Any:
    if field.initial is None or callable(field.initial) or isinstance(field, forms.ModelChoiceField | forms.JSONField):
        return None
    return kind.to_json(field.initial)
