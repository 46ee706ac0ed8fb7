"""Reads the arguments of a call from the command line, by the tool's JSON Schema.

A string property takes its text literally, and any other property takes JSON. `@FILE` reads a file, and `-` standard
input. The arguments are checked against the schema later, as for any client.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

NULL, TEXT = "null", "string"
_ALL: Final = frozenset({NULL, TEXT, "boolean", "integer", "number", "object", "array"})
_MAX_REFERENCES: Final = 16

Types = frozenset[str]


class ArgumentError(Exception):
    """The command line has no valid arguments. The message explains what to write."""


def read(given: Sequence[str], whole: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments object.

    `given` has `NAME=VALUE` pairs. `whole` is a JSON object, whose members they replace. `schema` is the tool's
    inputSchema. Raises `ArgumentError`.
    """
    arguments = {} if whole is None else _object(_source("--args", whole))
    named: set[str] = set()
    for each in given:
        name, sign, text = each.partition("=")
        if not sign or not name:
            raise ArgumentError(f"--arg {each}: write --arg NAME=VALUE.")
        if name in named:
            raise ArgumentError(f"--arg {name} is given twice; several values are one JSON array.")
        named.add(name)
        types = _types(schema.get("properties", {}).get(name, True), schema)
        arguments[name] = _value(name, _source(f"--arg {name}", text), types)
    return arguments


def _source(option: str, text: str) -> str:
    """Return the text, or the content of the file or standard input that it names."""
    try:
        if text == "-":
            return sys.stdin.buffer.read().decode()
        if text.startswith("@"):
            return Path(text[1:]).read_bytes().decode()
    except OSError as error:
        raise ArgumentError(f"{option}: {text[1:]} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{option}: {text} is not UTF-8 text.") from error
    return text


def _object(text: str) -> dict[str, Any]:
    try:
        found = _json(text)
    except ValueError as error:
        raise ArgumentError(f"--args: this is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ArgumentError('--args: write a JSON object, as --args \'{"name": "value"}\'.')
    return found


def _value(name: str, text: str, types: Types) -> Any:
    if types <= {TEXT, NULL} and TEXT in types:
        return text
    try:
        value = _json(text)
    except ValueError as error:
        if TEXT in types:
            return text
        wanted = " or ".join(sorted(types))
        raise ArgumentError(f"--arg {name}: {text[:80]!r} is not JSON; {name} takes JSON ({wanted}).") from error
    return value if _kinds(value) & types or TEXT not in types else text


def _json(text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _kinds(value: Any) -> Types:
    """Return the JSON Schema types of a value."""
    if value is None:
        return frozenset({NULL})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int):
        return frozenset({"integer", "number"})
    if isinstance(value, float):
        return frozenset({"integer", "number"} if value.is_integer() else {"number"})
    return frozenset({TEXT if isinstance(value, str) else "object" if isinstance(value, dict) else "array"})


def _types(schema: Any, root: Mapping[str, Any], references: int = 0) -> Types:
    """Return the types that a schema allows. `references` is the number of references followed so far."""
    if not isinstance(schema, Mapping):
        return _ALL
    found = _ALL
    if (declared := schema.get("type")) is not None:
        found &= {declared} if isinstance(declared, str) else frozenset(declared)
    if "enum" in schema:
        found &= frozenset[str]().union(*map(_kinds, schema["enum"]))
    if "const" in schema:
        found &= _kinds(schema["const"])
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            found &= frozenset[str]().union(*(_types(each, root, references) for each in schema[keyword]))
    for each in schema.get("allOf", ()):
        found &= _types(each, root, references)
    if "$ref" in schema and references < _MAX_REFERENCES:
        found &= _types(_target(schema["$ref"], root), root, references + 1)
    return found


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    """Return the schema at a JSON pointer; an empty schema if the reference is an anchor."""
    if not reference.startswith("#/"):
        return True
    found: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name, True) if isinstance(found, Mapping) else True
    return found
