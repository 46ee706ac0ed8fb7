"""The checks that every tool's schemas must pass when the tool is registered.

Schemas that need the network are refused, and so are keywords that the dialect does not know. A
schema must not cost a validator more than its size suggests. So references must not lead back to
themselves or multiply, nesting has a limit, and patterns must not backtrack.
Source: 2026-07-28 basic/index "JSON Schema Usage", server/tools "x-mcp-header".
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

from jsonschema.exceptions import SchemaError

from mcp_app.catalogue.schema import dialects
from mcp_app.catalogue.schema.secret_names import is_secret

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 64
MAX_SUBSCHEMAS: Final = 2_000
"""Maximum subschemas in one schema, and maximum that apply to one value through references."""

# Keywords whose value is one schema (or an array, for `items` of draft-07), an array, or a map.
_ONE: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
_ARRAY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_MAP: Final = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
"""Keywords whose subschemas apply to the same value and not to a part of it."""

HEADER_KEYWORD: Final = "x-mcp-header"
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MIRRORED_TYPES: Final = frozenset({"boolean", "integer", "string"})

Path = tuple[str, ...]


class UnusableSchemaError(ValueError):
    """The schema cannot be used. The message has the place and the reason."""


@dataclass(frozen=True)
class Subschemas:
    """The subschemas of a document by their paths from the root, and the targets of references."""

    root: Mapping[str, Any]
    by_path: dict[Path, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Mapping[str, Any]) -> "Subschemas":
        """Collect the subschemas of a document."""
        return cls(root, dict(_walk(root, ())))

    @cached_property
    def anchors(self) -> dict[str, Path]:
        """Paths by the `$anchor` (or draft-07's `$id: "#name"`) that names them."""
        found: dict[str, Path] = {}
        for path, schema in self.by_path.items():
            if not isinstance(schema, dict):
                continue
            identifier = str(schema.get("$id", ""))
            name = schema.get("$anchor") or (identifier[1:] if identifier.startswith("#") else None)
            if name is None:
                continue
            if name in found:
                raise UnusableSchemaError(f"{_at(path)}: the anchor {name!r} is used twice")
            found[name] = path
        return found

    def target(self, reference: str) -> Path:
        """Return the path that a `$ref` leads to: a schema inside the document."""
        if not reference.startswith("#"):
            raise UnusableSchemaError(f"$ref {reference!r} leaves the schema; put its target under $defs")
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            path = self.anchors.get(pointer)
        else:
            path = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
        if path not in self.by_path:
            raise UnusableSchemaError(f"$ref {reference!r} points to no schema in this document")
        return path


def check(schema: Any) -> None:
    """Check that `schema` may be an input or output schema.

    `schema`: an object, JSON-ready. Raises `UnusableSchemaError`.
    """
    _check_document(schema)
    subschemas = Subschemas.of(schema)
    if len(subschemas.by_path) > MAX_SUBSCHEMAS:
        raise UnusableSchemaError(f"its schema has more than {MAX_SUBSCHEMAS} subschemas")
    for path, subschema in subschemas.by_path.items():
        if isinstance(subschema, dict):
            _check_subschema(path, subschema, schema)
    _check_patterns(subschemas)
    _check_references(subschemas)


def check_input(schema: Any) -> None:
    """Check an input schema, which must also be of type "object"."""
    check(schema)
    if schema.get("type") != "object":
        raise UnusableSchemaError('the root of its input schema must have "type": "object"')


def header_params(schema: Mapping[str, Any]) -> dict[str, Path]:
    """Return the `x-mcp-header` names of a checked schema.

    Each name has the chain of `properties` keys that leads to its parameter.
    """
    found: dict[str, Path] = {}
    for path, subschema in _walk(schema, ()):
        if isinstance(subschema, dict) and HEADER_KEYWORD in subschema:
            name = _header_name(path, subschema)
            if name.lower() in map(str.lower, found):
                raise UnusableSchemaError(f"{_at(path)}: {HEADER_KEYWORD} {name!r} is used twice")
            found[name] = path[1::2]
    return found


def _header_name(path: Path, subschema: Mapping[str, Any]) -> str:
    name = subschema[HEADER_KEYWORD]
    if not path or any(keyword != "properties" for keyword in path[::2]):
        raise UnusableSchemaError(f"{_at(path)}: {HEADER_KEYWORD} must be on a property, reached by properties alone")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise UnusableSchemaError(f"{_at(path)}: {HEADER_KEYWORD} must be an HTTP field name token, such as Region")
    kind = subschema.get("type")
    if not isinstance(kind, str) or kind not in _MIRRORED_TYPES:
        raise UnusableSchemaError(
            f"{_at(path)}: {HEADER_KEYWORD} must be on a string, integer or boolean; "
            "to make it optional, give it a default instead of null"
        )
    if is_secret(path[-1], subschema):
        raise UnusableSchemaError(
            f"{_at(path)}: {HEADER_KEYWORD} would put a secret into a header, which proxies log; leave it out"
        )
    return name


def _check_document(schema: Any) -> None:
    if not isinstance(schema, dict):
        raise UnusableSchemaError("its schema must be a JSON object")
    try:
        size = len(json.dumps(schema, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise UnusableSchemaError("its schema is not plain, finite JSON in valid Unicode") from error
    if size > MAX_SCHEMA_BYTES:
        raise UnusableSchemaError(f"its schema has {size} bytes; the limit is {MAX_SCHEMA_BYTES}")
    if _deeper_than(schema, MAX_SCHEMA_DEPTH):
        raise UnusableSchemaError(f"its schema is nested more than {MAX_SCHEMA_DEPTH} levels deep")
    declared = schema.get("$schema", dialects.DEFAULT_DIALECT)
    if not isinstance(declared, str) or declared.rstrip("#") not in dialects.DIALECTS:
        raise UnusableSchemaError(f"$schema {declared!r} is not supported; use {', '.join(dialects.DIALECTS)}")
    dialect = dialects.DIALECTS[declared.rstrip("#")]
    try:
        # No format checker: it would check patterns with Python's engine, which is not used here.
        dialect.check_schema(schema, format_checker=None)
    except SchemaError as error:
        raise UnusableSchemaError(f"{_at(tuple(map(str, error.absolute_path)))}: {error.message[:300]}") from error


def _deeper_than(value: Any, levels: int) -> bool:
    parts: list[Any] = [value]
    while parts and levels:
        parts = [member for part in parts for member in _members(part)]
        levels -= 1
    return bool(parts)


def _members(value: Any) -> list[Any]:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [member for member in members if isinstance(member, dict | list)]


def _walk(schema: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield every subschema with its path, the root first."""
    yield path, schema
    for keyword, key, subschema in _children(schema):
        yield from _walk(subschema, (*path, keyword, *key))


def _children(schema: Any) -> Iterator[tuple[str, Path, Any]]:
    """Yield (keyword, key below it, subschema) for the schemas directly below `schema`."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword in _ARRAY and isinstance(value, list):
            yield from ((keyword, (str(index),), subschema) for index, subschema in enumerate(value))
        elif keyword in _MAP and isinstance(value, dict):
            # In draft-07, `dependencies` also holds arrays of names, which are not schemas.
            yield from (
                (keyword, (key,), subschema) for key, subschema in value.items() if isinstance(subschema, dict | bool)
            )
        elif keyword in _ONE:
            yield keyword, (), value


def with_subschemas(schema: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a copy of `schema` with each subschema right below it changed."""
    copy = dict(schema)
    for keyword, key, subschema in _children(schema):
        if not key:
            copy[keyword] = change(subschema)
            continue
        if copy[keyword] is schema[keyword]:
            copy[keyword] = schema[keyword].copy()
        copy[keyword][int(key[0]) if isinstance(copy[keyword], list) else key[0]] = change(subschema)
    return copy


def _check_subschema(path: Path, subschema: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if keyword in subschema:
            raise UnusableSchemaError(f"{_at(path)}: {keyword} is not supported; use $ref")
    if path and not str(subschema.get("$id", "#")).startswith("#"):
        raise UnusableSchemaError(f"{_at(path)}: only the root may have an $id")
    if path and subschema.get("$schema", root.get("$schema")) != root.get("$schema"):
        raise UnusableSchemaError(f"{_at(path)}: $schema must be the root's")


def _check_patterns(subschemas: Subschemas) -> None:
    objects = [(path, each) for path, each in subschemas.by_path.items() if isinstance(each, dict)]
    for path, subschema in objects:
        for pattern in (*filter(None, [subschema.get("pattern")]), *subschema.get("patternProperties", ())):
            if fault := dialects.pattern_fault(pattern):
                raise UnusableSchemaError(f"{_at(path)}: {fault}")
    # The library evaluates this pair of keywords with Python's engine, which backtracks.
    if any("unevaluatedProperties" in each for _, each in objects) and any(
        "patternProperties" in each for _, each in objects
    ):
        raise UnusableSchemaError("patternProperties and unevaluatedProperties cannot be used in one schema")


def _check_references(subschemas: Subschemas) -> None:
    """Check that each `$ref` has a target, and that references neither loop nor multiply."""
    costs: dict[Path, int] = {}
    for path in subschemas.by_path:
        _cost(path, subschemas, costs, ())


def _cost(path: Path, subschemas: Subschemas, costs: dict[Path, int], above: tuple[Path, ...]) -> int:
    """Return how many subschemas apply to one value if the one at `path` does."""
    if path in above:
        raise UnusableSchemaError(
            f"{_at(path)}: its $ref leads back to itself for the same value, so checking would never end"
        )
    if path not in costs:
        schema, cost = subschemas.by_path[path], 1
        for next_path in _same_value(path, schema, subschemas):
            cost += _cost(next_path, subschemas, costs, (*above, path))
            if cost > MAX_SUBSCHEMAS or len(above) > MAX_SCHEMA_DEPTH:
                raise UnusableSchemaError(f"{_at(path)}: its references are nested too deeply")
        costs[path] = cost
    return costs[path]


def _same_value(path: Path, schema: Any, subschemas: Subschemas) -> Iterator[Path]:
    if isinstance(schema, dict) and "$ref" in schema:
        yield subschemas.target(schema["$ref"])
    for keyword, key, _ in _children(schema):
        if keyword in _IN_PLACE:
            yield (*path, keyword, *key)


def _at(path: Path) -> str:
    return "#" + "".join(f"/{part}" for part in path)
