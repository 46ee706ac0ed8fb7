"""Choose the form field, and its help text, for the JSON Schema of a value.

Every valid value can be sent: if no field can hold it, it is entered as JSON. The schema's texts come from the tool's
author and are escaped.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone_name

from mcp_app.admin.arguments.fields import (
    MISSING,
    Anything,
    ArgumentField,
    Check,
    Choice,
    Choices,
    LinesField,
    Moment,
    Number,
    Text,
    Word,
)
from mcp_app.catalogue.schema.json_schema import Subschemas
from mcp_app.safe_text import safe_text

NOTHINGS: Final[tuple[Any, ...]] = (MISSING, None, "", [], {})
"""Defaults that an empty field stands for."""
DESCRIPTION_CHARS: Final = 1_000
DEFAULT_CHARS: Final = 100
_INPUTS: Final = {"date": "date", "uri": "url", "email": "email"}
_SCALARS: Final = ("string", "integer", "number")
_FOLLOWED: Final = 32


class Shape(NamedTuple):
    """The schema of a value without references, and whether the value may be null."""

    schema: Mapping[str, Any]
    nullable: bool

    @property
    def type(self) -> Any:
        return self.schema.get("type")

    @property
    def default(self) -> Any:
        return self.schema.get("default", MISSING)

    @property
    def choices(self) -> list[tuple[Any, str]] | None:
        """Return the allowed values with their labels, or `None` if there is no such list."""
        schema = self.schema
        if isinstance(values := schema.get("enum"), list):
            names = schema.get("enumNames")
            labels = names if isinstance(names, list) and len(names) == len(values) else map(_label, values)
            return list(zip(values, map(str, labels), strict=True))
        if "const" in schema:
            return [(schema["const"], _label(schema["const"]))]
        of = schema.get("oneOf") or schema.get("anyOf")
        if isinstance(of, list) and all(isinstance(each, Mapping) and "const" in each for each in of):
            return [(each["const"], str(each.get("title") or _label(each["const"]))) for each in of]
        return None

    @property
    def is_record(self) -> bool:
        """Return whether it is an object whose members are named, with a field for each."""
        more = self.schema.get("additionalProperties", True)
        is_open = isinstance(more, Mapping) or "patternProperties" in self.schema
        return self.type == "object" and bool(self.schema.get("properties")) and not is_open and self.choices is None


def shape(schema: Any, subschemas: Subschemas) -> Shape:
    """Return the shape of a schema, as far as the form needs it."""
    nullable = False
    for _ in range(_FOLLOWED):
        if not isinstance(schema, Mapping):
            break
        alternatives = [key for key in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(key), list)]
        if "$ref" in schema:
            schema = _merged(schema, "$ref", subschemas.by_path[subschemas.target(schema["$ref"])])
        elif isinstance(types := schema.get("type"), list):
            nullable |= "null" in types
            rest = [each for each in types if each != "null"]
            schema = {**schema, "type": rest[0] if len(rest) == 1 else rest}
            if len(rest) != 1:
                break
        elif len(alternatives) == 1 and len(only := _not_null(schema[alternatives[0]])) == 1:
            nullable |= len(only) < len(schema[alternatives[0]])
            schema = _merged(schema, alternatives[0], only[0])
        else:
            break
    return Shape(schema if isinstance(schema, Mapping) else {}, nullable)


def field_of(of: Shape, subschemas: Subschemas, *, required: bool) -> ArgumentField:
    """Return a field for a value of this shape that can show its default."""
    makers = [*_makers(of, subschemas, required=required), Anything]
    fields = (make(required=required) for make in makers)
    default = of.default
    return next(each for each in fields if default in NOTHINGS or each.represents(default))


def help_text(of: Shape, field: ArgumentField, *, when_empty: Any) -> str:
    """Return the help text of a field. `when_empty` is the JSON value of an empty field, or `MISSING`."""
    notes = [str(of.schema["description"])] if of.schema.get("description") else []
    if isinstance(field, LinesField):
        notes.append("One per line.")
    elif isinstance(field, Moment):
        notes.append(f"In the time zone {get_current_timezone_name()}.")
    elif isinstance(field, Anything):
        notes.append("As JSON.")
    if when_empty is not MISSING:
        notes.append(f"Empty: {_label(when_empty)} is sent.")
    elif of.default not in NOTHINGS and not isinstance(field, Check) and getattr(field, "first", MISSING) is MISSING:
        notes.append(f"Empty: it is left out, which means {safe_text(_label(of.default), DEFAULT_CHARS)}.")
    return words(" ".join(notes), DESCRIPTION_CHARS + DEFAULT_CHARS) if notes else ""


def words(text: object, limit: int) -> SafeString:
    """Return a text of the schema's author, made safe to show in markup."""
    return format_html('<bdi class="mcp-text">{}</bdi>', safe_text(text, limit))


def _makers(of: Shape, subschemas: Subschemas, *, required: bool) -> Sequence[Callable[..., ArgumentField]]:
    """Return the functions that can make a field for the shape, the best first."""
    if (choices := of.choices) is not None:
        blank = not (required and (of.default is not MISSING or len(choices) == 1))
        return [lambda **options: Choice(choices=choices, blank=blank, **options)]
    if of.type == "boolean":
        if not of.nullable and (required or isinstance(of.default, bool)):
            return [Check]
        return [lambda **options: Choice(choices=[(True, "Yes"), (False, "No")], blank=True, **options)]
    if of.type in ("integer", "number"):
        return [lambda **options: Number(whole=of.type == "integer", **options)]
    if of.type == "string":
        return [*_texts(of.schema), Text]
    if of.type == "array":
        return _lists(of.schema, subschemas)
    return []


def _texts(schema: Mapping[str, Any]) -> Sequence[Callable[..., ArgumentField]]:
    kind = schema.get("format")
    if kind == "date-time":
        return [Moment]
    if kind in _INPUTS:
        return [lambda **options: Word(kind=_INPUTS[str(kind)], **options)]
    return []


def _lists(schema: Mapping[str, Any], subschemas: Subschemas) -> Sequence[Callable[..., ArgumentField]]:
    if "prefixItems" in schema or not isinstance(schema.get("items"), Mapping):
        return []
    item = shape(schema["items"], subschemas)
    if item.nullable:
        return []
    if (choices := item.choices) is not None:
        return [lambda **options: Choices(choices=choices, **options)]
    return [lambda **options: LinesField(item=str(item.type), **options)] if item.type in _SCALARS else []


def _merged(schema: Mapping[str, Any], keyword: str, behind: Any) -> Mapping[str, Any]:
    """Merge a schema with its reference.

    Keywords beside a reference override those behind it. A title behind it names the type, not the argument, so it is
    dropped.
    """
    beside = {name: value for name, value in schema.items() if name != keyword}
    if not isinstance(behind, Mapping):
        return beside
    return {**{name: value for name, value in behind.items() if name != "title"}, **beside}


def _not_null(alternatives: Sequence[Any]) -> list[Any]:
    return [each for each in alternatives if not (isinstance(each, Mapping) and each.get("type") == "null")]


def _label(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
