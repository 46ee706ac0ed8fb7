"""A form's fields as JSON Schema, and arguments as what the fields clean.

What a browser would send is left out of it: no widget, prefix or text of a check box. Refuses fields that JSON cannot
fill (files), or that take several inputs.
"""

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.db.models import Field as ModelField
from django.utils.choices import CallableChoiceIterator
from django.utils.encoding import force_str

from mcp_app.derived import kinds, model_fields
from mcp_app.derived.kinds import Kind

_BY_TYPE: Final[tuple[tuple[type[forms.Field], Kind], ...]] = (
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
    """A form's field that no argument can be; the message says what to change."""


class ArgumentWidget(forms.Widget):
    """Takes an argument as it is."""

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Any:
        return data.get(name)


def kind_of(name: str, field: forms.Field) -> Kind:
    """The argument for a field. Raises `UnusableFieldError`."""
    kind = None if isinstance(field, _REFUSED) else _bare(name, field)
    if kind is None:
        raise UnusableFieldError(f"{name} is a {type(field).__name__}, which JSON cannot fill; leave it out")
    return kind.with_schema(description=_description(field), default=_default(kind, field))


def is_required(field: forms.Field) -> bool:
    """Whether an argument must be given: what has an initial value is filled with it, as a page would be."""
    return field.required and field.initial is None


def object_schema(arguments: Mapping[str, Kind], required: list[str]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments."""
    properties = {name: dict(kind.schema) for name, kind in arguments.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _bare(name: str, field: forms.Field) -> Kind | None:
    if isinstance(field, forms.ModelChoiceField):
        key = _related_key(field)
        return key.many(uniqueItems=True) if isinstance(field, forms.ModelMultipleChoiceField) else key
    if isinstance(field, forms.MultipleChoiceField):
        return Kind({"type": "array", "items": _enum(field, blank=False), "uniqueItems": True})
    if isinstance(field, forms.ChoiceField):
        return Kind(_enum(field, blank=not field.required))
    if isinstance(field, forms.NullBooleanField):
        return kinds.BOOLEAN.or_null()
    if isinstance(field, forms.BooleanField):
        return kinds.BOOLEAN.with_schema(const=True if field.required else None)
    kind = next((kind for type_, kind in _BY_TYPE if isinstance(field, type_)), None)
    return None if kind is None else _limited(kind, field)


def _limited(kind: Kind, field: forms.Field) -> Kind:
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


def _related_key(field: "forms.ModelChoiceField[Any]") -> Kind:
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
    """Values and labels, out of their groups, without the one for nothing; none of what is asked for anew each time."""
    found: list[tuple[Any, Any]] = []
    choices: Any = field.choices  # read, they are always pairs
    if isinstance(choices, CallableChoiceIterator):  # they may be others by the time of a call, and read the database
        return found
    for value, label in choices:
        found.extend(label if isinstance(label, list | tuple) else [(value, label)])
    return [(value, label) for value, label in found if value not in (None, "")]


def _description(field: forms.Field) -> str:
    """The help text, and what choices mean."""
    said = [force_str(field.help_text)] if field.help_text else []
    if isinstance(field, forms.ChoiceField) and not isinstance(field, forms.ModelChoiceField):
        labels = [f"{value}: {label}" for value, label in _choices(field) if _says_more(value, label)]
        said += ["; ".join(labels)] if labels else []
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in said)


def _default(kind: Kind, field: forms.Field) -> Any:
    if field.initial is None or callable(field.initial) or isinstance(field, forms.ModelChoiceField | forms.JSONField):
        return None
    return kind.to_json(field.initial)
