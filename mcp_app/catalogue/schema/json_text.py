"""Reads JSON text in arguments: `"5"` as 5, `"[1]"` as an array, `"null"` as null.

Several clients and models write structured arguments as text. A string is read as JSON only if its
schema allows no string there, and if the text is JSON of a type that the schema does allow. A
schema that may allow a string (one without a `type`, `str | list`, an enumeration with a string in
it) leaves the text as it was sent, because the text may be what the caller meant. The members of
arrays and objects are treated in the same way, also those of a text that was read.

`$ref`, `allOf`, `anyOf` and `oneOf` are followed. Other keywords are ignored, so the result must
still be validated.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_app.catalogue.schema import dialects
from mcp_app.catalogue.schema.json_schema import Subschemas
from mcp_app.protocol.jsonrpc import Limits, decode, holds_forbidden_text

MAX_STEPS: Final = 200_000
"""Subschemas visited for one call. Reading `CHARS_PER_STEP` characters of text counts as much as a
subschema."""
CHARS_PER_STEP: Final = 100
MAX_DEPTH: Final = 64
"""Arrays and objects inside one another, those inside text included. What lies deeper stays as it
was sent."""

_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_JSON_STARTS: Final = tuple("[{-0123456789tfn")


class TextReader:
    """Reads JSON text in the arguments of one tool.

    Its input schema must have passed `json_schema.check`.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._subschemas = Subschemas.of(schema)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the arguments with their JSON text parsed, if they have any."""
        try:
            read: dict[str, Any] = _Pass(self._subschemas).read(dict(arguments), self._subschemas.root, 0)
        except _TooManyStepsError:
            return dict(arguments)
        return read


class _TooManyStepsError(Exception):
    """The arguments take more than `MAX_STEPS`."""


class _Pass:
    """One pass over the arguments of one call."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._steps_left = MAX_STEPS

    def read(self, value: Any, schema: Any, depth: int) -> Any:
        """Return `value` as `schema` allows it. Arrays and objects are copied."""
        if isinstance(value, str) and value.lstrip().startswith(_JSON_STARTS):
            return self._read_text(value, schema, depth)
        if depth >= MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return {name: self._read_member(value, name, "object", schema, depth) for name in value}
        if isinstance(value, list):
            return [self._read_member(value, index, "array", schema, depth) for index in range(len(value))]
        return value

    def _read_member(self, holder: Any, key: str | int, container: str, schema: Any, depth: int) -> Any:
        """Read one member of the array or object `holder`, which `schema` describes."""
        member = holder[key]
        if not isinstance(member, str | list | dict):
            return member  # neither text nor a holder of text: its schema need not be found
        return self.read(member, self._schema_of(key, container, schema), depth + 1)

    def _read_text(self, text: str, schema: Any, depth: int) -> Any:
        types = self._types(schema)
        if "string" in types:
            return text
        self._count(len(text) // CHARS_PER_STEP)
        decoded = decode(text.encode("utf-8", "surrogatepass"), Limits(max_depth=MAX_DEPTH - depth))
        # A Rejection has no value, and its type is not one of JSON's.
        value = getattr(decoded, "value", decoded)
        if _type_of(value) not in types or holds_forbidden_text(value, text):
            return text
        return self.read(value, schema, depth)

    def _types(self, schema: Any) -> frozenset[str]:
        """Return the JSON types that `schema` may allow."""
        self._count()
        if not isinstance(schema, dict):
            return _TYPES if schema else frozenset()
        types = _TYPES & _stated_types(schema)
        if "$ref" in schema:
            types &= self._types(self._target(schema["$ref"]))
        for each in schema.get("allOf", ()):
            types &= self._types(each)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                types &= frozenset().union(*map(self._types, schema[keyword]))
        return types

    def _schema_of(self, key: str | int, container: str, schema: Any) -> Any:
        """Return one schema for a member of a value.

        `schema` describes the value, and `container` is the value's JSON type.
        """
        self._count()
        if not isinstance(schema, dict):
            return schema
        found = list(_own_schemas(key, schema))
        if "$ref" in schema:
            found.append(self._schema_of(key, container, self._target(schema["$ref"])))
        found += [self._schema_of(key, container, each) for each in schema.get("allOf", ())]
        for keyword in ("anyOf", "oneOf"):
            branches = [each for each in schema.get(keyword, ()) if container in self._types(each)]
            if branches:
                found.append({"anyOf": [self._schema_of(key, container, each) for each in branches]})
        return found[0] if len(found) == 1 else {"allOf": found}

    def _target(self, reference: str) -> Any:
        return self._subschemas.by_path[self._subschemas.target(reference)]

    def _count(self, steps: int = 1) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise _TooManyStepsError


def _own_schemas(key: str | int, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas that the keywords of `schema` itself have for a member or an item."""
    if isinstance(key, int):
        # In draft-07 `items` may be a list, and `additionalItems` is for the items after it.
        first, rest = schema.get("prefixItems", []), "items"
        if isinstance(schema.get("items"), list):
            first, rest = schema["items"], "additionalItems"
        if key < len(first):
            yield first[key]
        elif rest in schema:
            yield schema[rest]
        return
    named = key in schema.get("properties", {})
    if named:
        yield schema["properties"][key]
    matching = [each for pattern, each in schema.get("patternProperties", {}).items() if dialects.matches(pattern, key)]
    yield from matching
    if not named and not matching and "additionalProperties" in schema:
        yield schema["additionalProperties"]


def _stated_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that `type`, `enum` and `const` allow."""
    types = _TYPES
    if "type" in schema:
        stated = schema["type"]
        types = frozenset([stated] if isinstance(stated, str) else stated)
        types |= {"integer"} if "number" in types else frozenset()
    if "enum" in schema:
        types &= frozenset(map(_type_of, schema["enum"]))
    if "const" in schema:
        types &= {_type_of(schema["const"])}
    return types


def _type_of(value: Any) -> str:
    """Return the JSON type of `value`; an integral number is an `integer` however it is written."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    for python_type, name in ((int, "integer"), (str, "string"), (dict, "object"), (list, "array")):
        if isinstance(value, python_type):
            return name
    return "null" if value is None else ""
