"""The arguments in a schema as a tree of leaves, which have form fields, and groups.

The tree decides the depth of the form, the meaning of an empty field, and the names of fields.
Source: 2026-07-28 server/tools, "Tool".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from mcp_app.admin.arguments.fields import MISSING, ArgumentField, Check
from mcp_app.admin.arguments.kinds import NOTHINGS, Shape, field_of, shape
from mcp_app.catalogue.schema.json_schema import Subschemas

MAX_FIELDS: Final = 200
"""A schema with more fields is filled in as JSON. Django accepts 1,000 fields of a form."""
MAX_DEPTH: Final = 3
"""The depth of nested objects with fields of their own. Deeper objects are filled in as JSON."""
PREFIX: Final = "argument"

Path: TypeAlias = tuple[str, ...]


class NoFieldsError(Exception):
    """The schema has too many fields for a form, or names no arguments."""


@dataclass(frozen=True)
class Leaf:
    """An argument, or a member of one, that has a form field."""

    path: Path
    shape: Shape
    required: bool
    field: ArgumentField

    @property
    def name(self) -> str:
        """The name of the field."""
        return _name(self.path)

    @property
    def when_empty(self) -> Any:
        """The JSON value to send for an empty field. `MISSING`: the argument is left out, or required."""
        if not self.required and self.shape.default in NOTHINGS:
            return MISSING
        if self.shape.nullable:
            return None
        if self.shape.type == "array":
            return []
        return "" if self.shape.type == "string" and not self.required and self.shape.choices is None else MISSING


@dataclass(frozen=True)
class ArgumentGroup:
    """An object whose members have form fields."""

    path: Path
    shape: Shape
    required: bool
    members: Sequence["Leaf | ArgumentGroup"]

    @property
    def given(self) -> str | None:
        """The name of the checkbox that includes the object, or `None` if it is always sent."""
        # A question mark is escaped in names of members.
        return None if _is_sent(self.shape, required=self.required) else f"{_name(self.path)}?"

    @property
    def when_empty(self) -> Any:
        """The JSON value to send if the object is not included. `MISSING`: it is left out."""
        means_more = self.required or self.shape.default not in (MISSING, None)
        return None if self.shape.nullable and means_more else MISSING

    def leaves(self) -> Iterator[Leaf]:
        for member in self.members:
            yield from member.leaves() if isinstance(member, ArgumentGroup) else [member]

    def groups(self) -> Iterator["ArgumentGroup"]:
        yield self
        for member in self.members:
            if isinstance(member, ArgumentGroup):
                yield from member.groups()


def read(schema: Mapping[str, Any]) -> ArgumentGroup:
    """Return the tree of a tool's arguments. Raises `NoFieldsError`."""
    return _SchemaReading(schema).root()


class _SchemaReading:
    """Builds the tree of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._subschemas = Subschemas.of(schema)
        self._left = MAX_FIELDS

    def root(self) -> ArgumentGroup:
        of = shape(self._schema, self._subschemas)
        if not of.schema.get("properties") and of.schema.get("additionalProperties") is not False:
            raise NoFieldsError
        return ArgumentGroup((), of, True, self._members((), of.schema, sure=True))

    def _members(self, path: Path, schema: Mapping[str, Any], *, sure: bool) -> list[Leaf | ArgumentGroup]:
        """Return the leaves and groups of an object's properties. `sure` is whether the object is always sent."""
        properties = schema.get("properties", {})
        return [self._member((*path, name), schema, sure=sure) for name in properties if properties[name] is not False]

    def _member(self, path: Path, schema: Mapping[str, Any], *, sure: bool) -> Leaf | ArgumentGroup:
        of = shape(schema["properties"][path[-1]], self._subschemas)
        required = path[-1] in schema.get("required", ())
        if of.is_record and len(path) <= MAX_DEPTH:
            sure = sure and _is_sent(of, required=required)
            return ArgumentGroup(path, of, required, self._members(path, of.schema, sure=sure))
        self._left -= 1
        if self._left < 0:
            raise NoFieldsError
        leaf = Leaf(path, of, required, field_of(of, self._subschemas, required=required))
        is_needed = sure and required and leaf.when_empty is MISSING
        leaf.field.required = is_needed and not isinstance(leaf.field, Check)
        return leaf


def _is_sent(of: Shape, *, required: bool) -> bool:
    """Whether an object is always sent."""
    return required and not of.nullable


def _name(path: Path) -> str:
    """Return a field name made of the names in the path, so that it does not depend on the order of arguments."""
    return "/".join([PREFIX, *(quote(step, safe="") for step in path)])
