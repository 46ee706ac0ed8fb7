"""JSON Schema dialects, and validators whose cost is bounded for any value that a client sends.

Supported are 2020-12 (the default) and draft-07. Nothing is fetched. Regular expressions run on
Rust's linear-time engine (through pydantic), so patterns cannot backtrack. Patterns that it cannot
compile (look-around, back references) are refused at registration. `format` is an annotation and is
not checked, as 2020-12 specifies.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing import Registry

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_PATTERN_CHARS: Final = 1_000


class TooCostlyError(Exception):
    """Checking the value would take more keyword evaluations than allowed."""


@dataclass
class _Budget:
    left: int


_budget: ContextVar[_Budget | None] = ContextVar("mcp_app_schema_budget", default=None)


@contextmanager
def bounded(evaluations: int) -> Iterator[None]:
    """Limit the keyword evaluations inside the block. More of them raise `TooCostlyError`."""
    token = _budget.set(_Budget(evaluations))
    try:
        yield
    finally:
        _budget.reset(token)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern))


def pattern_fault(pattern: str) -> str | None:
    """Return the reason why `pattern` cannot be used in a schema, or `None`."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"a pattern may have at most {MAX_PATTERN_CHARS} characters"
    try:
        _pattern(pattern)
    except SchemaError:
        return "the pattern is not a regular expression that matches in linear time (no look-around or back references)"
    return None


def matches(pattern: str, text: str) -> bool:
    """Return whether `pattern` is found anywhere in `text`, in time linear in the text."""
    return _pattern(pattern).isinstance_python(text)


Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def _metered(keyword: Keyword) -> Keyword:
    def evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        if (budget := _budget.get()) is not None:
            budget.left -= 1
            if budget.left < 0:
                raise TooCostlyError
        return keyword(validator, value, instance, schema)

    return evaluate


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not matches(pattern, instance):
        yield ValidationError("the pattern is not found")


def _check_properties(
    validator: Any, properties: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for name, subschema in properties.items():
        if name in instance and subschema is False:
            # The library's own error for `false` does not contain the place.
            yield ValidationError("it is not allowed", validator=None, path=(name,))
        elif name in instance:
            yield from validator.descend(instance[name], subschema, path=name, schema_path=name)


def _check_pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            for name in [name for name in instance if matches(pattern, name)]:
                yield from validator.descend(instance[name], subschema, path=name, schema_path=pattern)


def additional_names(instance: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the members of `instance` that `properties` and `patternProperties` do not cover."""
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [name for name in instance if name not in named and not any(matches(pattern, name) for pattern in patterns)]


def _check_additional_properties(
    validator: Any, additional: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict) or not (names := additional_names(instance, schema)):
        return
    if additional is False:
        yield ValidationError("some members are not allowed")
        return
    for name in names:
        yield from validator.descend(instance[name], additional, path=name)


def _canonical(value: Any) -> Any:
    """Return a hashable value that is equal for equal JSON.

    1 equals 1.0, and neither equals true.
    """
    if isinstance(value, dict):
        return "object", frozenset((key, _canonical(member)) for key, member in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_canonical, value))
    return type(value) if isinstance(value, bool) else "scalar", value


def _check_unique_items(validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if unique and isinstance(instance, list) and len(set(map(_canonical, instance))) < len(instance):
        yield ValidationError("the items are not unique")


def _dialect(base: Any) -> Any:
    keywords = {
        **base.VALIDATORS,
        "pattern": _check_pattern,
        "properties": _check_properties,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "uniqueItems": _check_unique_items,
    }
    return extend(base, {name: _metered(keyword) for name, keyword in keywords.items()})


DIALECTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        DEFAULT_DIALECT: _dialect(Draft202012Validator),
        "http://json-schema.org/draft-07/schema": _dialect(Draft7Validator),
    }
)
"""Validator classes by the `$schema` that declares them, without a trailing `#`."""


def validator(schema: Mapping[str, Any]) -> Any:
    """Return a reusable `jsonschema` validator for a schema that passed `json_schema.check`."""
    dialect = DIALECTS[schema.get("$schema", DEFAULT_DIALECT).rstrip("#")]
    return dialect(schema, registry=Registry())
