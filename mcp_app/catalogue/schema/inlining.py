"""Inlines the definitions of a schema that pydantic made.

Pydantic puts every enum and model into `$defs`, and several clients and model APIs cannot follow
`$ref`. A definition takes the place of the references to it, unless it contains itself, or unless
the copies would add more than `MAX_GROWTH_BYTES` to the schema. Those definitions stay in `$defs`.
"""

import json
from collections import Counter
from typing import Any, Final

from mcp_app.catalogue.schema.json_schema import Subschemas, with_subschemas

MAX_GROWTH_BYTES: Final = 4_096
"""Maximum size that the second and later copies of all definitions may add to one schema."""

_PREFIX: Final = "#/$defs/"
_ANNOTATIONS: Final = frozenset(
    {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
"""Keywords that do not restrict the value. Beside a `$ref` they replace those of its target."""


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` with its definitions inlined.

    It is unchanged if it refers to anything but its own definitions.
    """
    definitions = schema.get("$defs", {})
    objects = [each for each in Subschemas.of(schema).by_path.values() if isinstance(each, dict)]
    uses = Counter(each["$ref"] for each in objects if "$ref" in each)
    if not uses or not uses.keys() <= {_PREFIX + name for name in definitions}:
        return schema
    return _Inlining(definitions, uses).of_root({name: value for name, value in schema.items() if name != "$defs"})


class _Inlining:
    """The inlining of one schema. `uses`: how often the schema has each reference."""

    def __init__(self, definitions: dict[str, Any], uses: Counter[str]) -> None:
        self._definitions = definitions
        self._uses = uses
        self._targets: dict[str, dict[str, Any] | None] = {}
        """The replacement of each reference; `None` for references that stay."""
        self._kept: dict[str, Any] = {}
        self._open: set[str] = set()
        self._recurring: set[str] = set()
        self._growth_left = MAX_GROWTH_BYTES

    def of_root(self, root: dict[str, Any]) -> dict[str, Any]:
        root = self._of(root)
        if "$ref" in root:
            # Older clients get an output schema only if its root has the type "object".
            root = _merged(self._kept[root["$ref"].removeprefix(_PREFIX)], root)
        return {**root, "$defs": self._kept} if self._kept else root

    def _of(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        schema = with_subschemas(schema, self._of)
        target = self._target(schema["$ref"]) if "$ref" in schema else None
        return schema if target is None else _merged(target, schema)

    def _target(self, reference: str) -> dict[str, Any] | None:
        if reference in self._open:
            self._recurring.add(reference)
            return None
        if reference not in self._targets:
            self._open.add(reference)
            self._targets[reference] = self._made(reference)
            self._open.remove(reference)
        return self._targets[reference]

    def _made(self, reference: str) -> dict[str, Any] | None:
        name = reference.removeprefix(_PREFIX)
        made: dict[str, Any] = self._of(self._definitions[name])
        growth = (self._uses[reference] - 1) * len(json.dumps(made))
        if reference in self._recurring or growth > self._growth_left:
            self._kept[name] = made
            return None
        self._growth_left -= growth
        return made


def _merged(target: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return `target` in place of the `$ref` of `schema`, with the other keywords of `schema`."""
    others = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    if all(keyword in _ANNOTATIONS or keyword.startswith("x-") for keyword in others):
        return {**target, **others}
    return {**others, "allOf": [target, *others.get("allOf", ())]}
