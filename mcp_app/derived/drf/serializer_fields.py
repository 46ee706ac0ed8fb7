"""A serializer's fields as JSON Schema. The serializer itself validates the values.

A field with a `to_internal_value` of its own may accept anything, so its schema is empty. Fields
that JSON cannot fill are refused.
"""

from typing import Any, Final

from rest_framework import fields, relations, serializers

from mcp_app.derived import kinds, model_fields

JSONSchema = dict[str, Any]

_BY_TYPE: Final[tuple[tuple[type[Any], JSONSchema], ...]] = (
    (fields.BooleanField, {"type": "boolean"}),
    (fields.EmailField, {"type": "string", "format": "email"}),
    (fields.URLField, {"type": "string", "format": "uri"}),
    (fields.UUIDField, {"type": "string", "format": "uuid"}),
    (fields.CharField, {"type": "string"}),
    (fields.IntegerField, {"type": "integer"}),
    (fields.FloatField, {"type": "number"}),
    (fields.DecimalField, {"type": ["string", "number"], "pattern": kinds.DECIMAL_PATTERN}),
    (fields.DateTimeField, {"type": "string", "format": "date-time"}),
    (fields.DateField, {"type": "string", "format": "date"}),
    (fields.TimeField, {"type": "string", "format": "time"}),
    (fields.DurationField, {"type": "string"}),
    (fields.DictField, {"type": "object"}),
    (relations.HyperlinkedRelatedField, {"type": "string", "format": "uri-reference"}),
)
_LIMITS: Final = {"min_value": "minimum", "max_value": "maximum", "min_length": "minLength", "max_length": "maxLength"}
_OF_LISTS: Final = {"min_length": "minItems", "max_length": "maxItems"}


class UnusableSerializerError(ValueError):
    """A serializer cannot be filled from arguments. The message explains what to change."""


def object_schema(serializer: Any, *, partial: bool = False) -> JSONSchema:
    """Return the schema of a serializer's writable fields. Raises `UnusableSerializerError`.

    `partial`: no field is required.
    """
    if isinstance(serializer, serializers.ListSerializer):
        raise UnusableSerializerError("its serializer has many=True")
    written = {
        name: field
        for name, field in serializer.fields.items()
        if not field.read_only and not isinstance(field, fields.HiddenField)
    }
    properties = {name: schema_of(name, field) for name, field in written.items()}
    required = [] if partial else [name for name, field in written.items() if field.required]
    schema: JSONSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def schema_of(name: str, field: Any) -> JSONSchema:
    """Return the schema of one field's value. Raises `UnusableSerializerError`."""
    if isinstance(field, fields.FileField):
        raise UnusableSerializerError(f"{name} is a {type(field).__name__}, which has no JSON form; make it read_only")
    schema = {} if _reads_its_own_way(field) else _bare(name, field)
    if field.allow_null and ("type" in schema or "enum" in schema):
        schema = kinds.nullable(schema)
    said = str(field.help_text) if field.help_text else ""
    return {**schema, "description": said} if said else schema


def _reads_its_own_way(field: Any) -> bool:
    return not type(field).to_internal_value.__module__.startswith("rest_framework.")


def _bare(name: str, field: Any) -> JSONSchema:
    if isinstance(field, fields.ChoiceField):
        values = [value for value in field.choices if value not in (None, "")]
        choice = {"enum": [*values, *([""] if field.allow_blank else [])]}
        return {"type": "array", "items": choice} if isinstance(field, fields.MultipleChoiceField) else choice
    if isinstance(field, relations.ManyRelatedField):
        return {"type": "array", "items": schema_of(name, field.child_relation)}
    if isinstance(field, relations.PrimaryKeyRelatedField | relations.SlugRelatedField):
        return _related(field)
    if isinstance(field, fields.ListField | serializers.ListSerializer):
        return {"type": "array", "items": schema_of(name, field.child), **_limits(field, _OF_LISTS)}
    if isinstance(field, serializers.Serializer):
        return object_schema(field, partial=field.partial)
    schema = next((schema for type_, schema in _BY_TYPE if isinstance(field, type_)), {})
    limits = _limits(field, _LIMITS) if schema else {}
    if isinstance(field, fields.CharField) and not field.allow_blank:
        limits.setdefault("minLength", 1)
    return {**schema, **limits}


def _limits(field: Any, words: dict[str, str]) -> JSONSchema:
    said = {word: getattr(field, limit, None) for limit, word in words.items()}
    return {
        word: limit if isinstance(limit, int) else float(limit) for word, limit in said.items() if limit is not None
    }


def _related(field: Any) -> JSONSchema:
    if field.queryset is None:
        return {}
    options = field.queryset.model._meta
    slug = getattr(field, "slug_field", None)
    key = model_fields.find(field.queryset.model, slug) if slug else options.pk
    kind = None if key is None else model_fields.kind_of(key)
    return {} if kind is None else dict(kind.schema)
