"""Error messages for JSON Schema violations: one phrase for each keyword.

The library's own messages print values in Python's syntax and without a limit. These messages are
made from the schema only.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from jsonschema.exceptions import ValidationError

from mcp_app.catalogue.schema.dialects import additional_names

MAX_VALUE_CHARS: Final = 120
MAX_BRANCHES: Final = 4


def sentence(error: ValidationError) -> str:
    """Return what the value at `error.absolute_path` must be."""
    keyword = error.validator
    if keyword in ("anyOf", "oneOf") and error.context:
        return _branches(error)
    if (speak := _SENTENCES.get(keyword)) is not None:
        return speak(error.validator_value, error.instance, error.schema)
    return f"violates {keyword} {_json(error.validator_value)}" if keyword else "is not allowed"


def _branches(error: ValidationError) -> str:
    """Return the first problem of each alternative.

    The library lists all errors, ordered by branch.
    """
    first: dict[Any, str] = {}
    for each in error.context:
        place = ".".join(map(str, each.relative_path))
        first.setdefault(each.relative_schema_path[0], f"{place}: {sentence(each)}" if place else sentence(each))
    shown = list(first.values())[:MAX_BRANCHES]
    return "fits none of the alternatives: " + " | ".join(shown)


def _missing(required: list[str], instance: Mapping[str, Any], schema: Any) -> str:
    return "must have " + ", ".join(_json(name) for name in required if name not in instance)


def _additional(value: Any, instance: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    return "must not have " + ", ".join(map(_json, additional_names(instance, schema)[:MAX_BRANCHES]))


def _type(value: str | list[str], instance: Any, schema: Any) -> str:
    return f"must be of type {value if isinstance(value, str) else ' or '.join(value)}"


def _with_value(words: str) -> Callable[[Any, Any, Any], str]:
    return lambda value, instance, schema: words.format(_json(value))


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


_SENTENCES: Final[Mapping[Any, Callable[[Any, Any, Any], str]]] = MappingProxyType(
    {
        "additionalProperties": _additional,
        "const": _with_value("must be {}"),
        "enum": _with_value("must be one of {}"),
        "exclusiveMaximum": _with_value("must be less than {}"),
        "exclusiveMinimum": _with_value("must be greater than {}"),
        "maxItems": _with_value("must have at most {} items"),
        "maxLength": _with_value("must have at most {} characters"),
        "maximum": _with_value("must be at most {}"),
        "minItems": _with_value("must have at least {} items"),
        "minLength": _with_value("must have at least {} characters"),
        "minimum": _with_value("must be at least {}"),
        "multipleOf": _with_value("must be a multiple of {}"),
        "oneOf": _with_value("must fit exactly one of its alternatives"),
        "pattern": _with_value("must match the pattern {}"),
        "required": _missing,
        "type": _type,
        "uniqueItems": _with_value("must not have duplicate items"),
    }
)
