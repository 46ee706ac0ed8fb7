"""Schemas of forms for users, in the flat subset of JSON Schema that every client can show.

A form is a pydantic model or a dictionary. Its fields are text, numbers, booleans and choices.
Fields that clients cannot show (nested objects, unions, patterns) are refused, and so is content
that must not pass through a form (passwords, tokens, links). Source: 2026-07-28 client/elicitation
"Requested Schema", "Form Mode Security", "Safe URL Handling".
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from mcp_app.catalogue.errors import InvalidForm
from mcp_app.catalogue.schema.secret_names import is_secret

Schema = type[BaseModel] | Mapping[str, Any]

_TEXTS: Final = {"title": str, "description": str}
_STRING: Final = {**_TEXTS, "minLength": int, "maxLength": int, "format": str, "default": str}
_NUMBER: Final = {**_TEXTS, "minimum": float, "maximum": float, "default": float}
_CHOICES: Final = list[str]
_MEMBERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": _STRING,
    "integer": {**_NUMBER, "default": int},
    "number": _NUMBER,
    "boolean": {**_TEXTS, "default": bool},
    "enum": {**_TEXTS, "enum": _CHOICES, "enumNames": _CHOICES, "default": str},
    "oneOf": {**_TEXTS, "oneOf": list[dict[str, str]], "default": str},
    "array": {**_TEXTS, "minItems": int, "maxItems": int, "items": dict[str, Any], "default": _CHOICES},
}
"""The members besides `type` that a field's schema may have, with their types, by kind of field."""
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


def requested_schema(schema: Schema) -> dict[str, Any]:
    """Return the `requestedSchema` of a form.

    Raises `InvalidForm`, with a message that says what to change.
    """
    try:
        if isinstance(schema, type):
            return _of_model(schema)
        return _checked(schema)
    except ValueError as error:
        name = schema.__name__ if isinstance(schema, type) else "The schema"
        raise InvalidForm(f"{name} cannot be a form: {str(error).rstrip('.')}.") from error


@lru_cache(maxsize=256)
def _of_model(model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise ValueError(f"a field has no JSON Schema: {error.message}") from error
    definitions = schema.get("$defs", {})
    fields = {name: _plain(field, definitions) for name, field in schema.get("properties", {}).items()}
    form: dict[str, Any] = {"type": "object", "properties": fields}
    if required := schema.get("required"):
        form["required"] = required
    return _checked(form)


def _plain(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field with its references resolved, and with `const` as an `enum` of one value."""
    if (reference := field.get("$ref")) is not None:
        target = definitions.get(str(reference).removeprefix("#/$defs/"), {})
        field = {**target, **{name: value for name, value in field.items() if name != "$ref"}}
    if isinstance(items := field.get("items"), Mapping):
        only = _plain(items, definitions)
        field = {**field, "items": {name: value for name, value in only.items() if name not in _TEXTS}}
    if "const" in field:
        field = {**{name: value for name, value in field.items() if name != "const"}, "enum": [field["const"]]}
    return dict(field)


def _checked(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "object" or not isinstance(properties := schema.get("properties"), Mapping):
        raise ValueError('it must be an object: {"type": "object", "properties": {…}}')
    if extra := sorted(set(schema) - {"$schema", "type", "properties", "required"}):
        raise ValueError(f"it may not have {', '.join(extra)}")
    required = schema.get("required", [])
    if not isinstance(required, list) or not set(required) <= set(properties):
        raise ValueError("required must be a list of names of its properties")
    for name, field in properties.items():
        if fault := _fault(name, field):
            raise ValueError(f"{name}: {fault}")
    return dict(schema)


def _fault(name: str, field: Any) -> str | None:
    if not isinstance(field, Mapping):
        return "a field must be described by an object"
    if "anyOf" in field or isinstance(field.get("type"), list):
        return "a form supports neither unions nor null; give an optional field a default of its type"
    if is_secret(name, field):
        return "do not ask for secrets through a client; ask for them on a page of your own (elicit_url)"
    if any("http://" in text or "https://" in text for text in _shown(field)):
        return "a form must not contain links; send the user to a page with elicit_url"
    kind = next((each for each in ("enum", "oneOf") if each in field), field.get("type"))
    if kind not in _MEMBERS or (kind in ("enum", "oneOf") and field.get("type") != "string"):
        return "a field must be a string, a number, an integer, a boolean, or a choice of strings"
    return _member_fault(_MEMBERS[str(kind)], field) or _choice_fault(field)


def _shown(field: Mapping[str, Any]) -> list[str]:
    """Return the texts of a field that the user sees."""
    items = field.get("items")
    choices = [*_listed(field, "oneOf"), *(_listed(items, "anyOf") if isinstance(items, Mapping) else ())]
    titles = (choice.get("title", "") for choice in choices if isinstance(choice, Mapping))
    return [str(text) for text in (*(field.get(each, "") for each in _TEXTS), *_listed(field, "enumNames"), *titles)]


def _listed(field: Mapping[str, Any], member: str) -> list[Any]:
    found = field.get(member)
    return found if isinstance(found, list) else []


def _member_fault(known: Mapping[str, Any], field: Mapping[str, Any]) -> str | None:
    for member, value in field.items():
        if member == "type":
            continue
        if member not in known:
            return f"{member} is not among what a form's field may have ({', '.join(known)})"
        try:
            TypeAdapter(known[member]).validate_python(value, strict=True)
        except ValidationError:
            return f"{member} has a value of the wrong type"
    if "format" in field and field["format"] not in _FORMATS:
        return f"format is one of {', '.join(sorted(_FORMATS))}"
    return None


def _choice_fault(field: Mapping[str, Any]) -> str | None:
    if "enumNames" in field and len(field["enumNames"]) != len(field["enum"]):
        return "enumNames must have a name for each value of enum"
    if any(set(choice) != {"const", "title"} for choice in field.get("oneOf", ())):
        return "each alternative of oneOf must have a const and a title"
    if field.get("type") != "array":
        return None
    items = field.get("items", {})
    if set(items) == {"type", "enum"}:
        return _member_fault({"enum": _CHOICES}, items) if items["type"] == "string" else "the choices must be strings"
    if set(items) == {"anyOf"} and all(set(choice) == {"const", "title"} for choice in items["anyOf"]):
        return None
    return "a list must be a choice of strings: items is an enum, or an anyOf of consts and titles"
