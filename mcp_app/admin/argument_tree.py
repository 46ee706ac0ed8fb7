"""The arguments that a schema names, as a tree: leaves that have fields, and objects of them.

Owns how far a form goes, what an empty field means and what a field is called. Source: 2026-07-28 server/tools "Tool".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from mcp_app.admin.argument_fields import MISSING, ArgumentField, Check
from mcp_app.admin.argument_kinds import NOTHINGS, Shape, field_of, shape
from mcp_app.catalogue.json_schema import Subschemas

MAX_FIELDS: Final = 200
"""A schema with more is filled in as JSON: Django takes 1,000 fields of a form, and nobody fills in so many."""
MAX_DEPTH: Final = 3
"""Objects inside one another that have fields of their own; what is deeper is filled in as JSON."""
PREFIX: Final = "argument"

Path: TypeAlias = tuple[str, ...]


class NoFieldsError(Exception):
    """The schema has more fields than a form may, or names none of what it takes."""


@dataclass(frozen=True)
class Leaf:
    """An argument, or a member of one, with a field."""

    path: Path
    shape: Shape
    required: bool
    field: ArgumentField

    @property
    def name(self) -> str:
        """The field's."""
        return _name(self.path)

    @property
    def when_empty(self) -> Any:
        """The JSON value that is sent where nothing is filled in; MISSING: it is left out, or required."""
        if not self.required and self.shape.default in NOTHINGS:
            return MISSING
        if self.shape.nullable:
            return None
        if self.shape.type == "array":
            return []
        return "" if self.shape.type == "string" and not self.required and self.shape.choices is None else MISSING


@dataclass(frozen=True)
class Group:
    """An object whose members have fields."""

    path: Path
    shape: Shape
    required: bool
    members: Sequence["Leaf | Group"]

    @property
    def given(self) -> str | None:
        """The name of the box that says that it is sent; None where it always is."""
        # Beyond the names of members, in which a question mark is quoted.
        return None if _is_sent(self.shape, required=self.required) else f"{_name(self.path)}?"

    @property
    def when_empty(self) -> Any:
        """The JSON value that is sent where it is not given; MISSING: it is left out."""
        means_more = self.required or self.shape.default not in (MISSING, None)
        return None if self.shape.nullable and means_more else MISSING

    def leaves(self) -> Iterator[Leaf]:
        for member in self.members:
            yield from member.leaves() if isinstance(member, Group) else [member]

    def groups(self) -> Iterator["Group"]:
        yield self
        for member in self.members:
            if isinstance(member, Group):
                yield from member.groups()


def read(schema: Mapping[str, Any]) -> Group:
    """What stands for a tool's arguments. Raises NoFieldsError."""
    return _Reading(schema).root()


class _Reading:
    """One reading of a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._subschemas = Subschemas.of(schema)
        self._left = MAX_FIELDS

    def root(self) -> Group:
        of = shape(self._schema, self._subschemas)
        if not of.schema.get("properties") and of.schema.get("additionalProperties") is not False:
            raise NoFieldsError
        return Group((), of, True, self._members((), of.schema, sure=True))

    def _members(self, path: Path, schema: Mapping[str, Any], *, sure: bool) -> list[Leaf | Group]:
        """What stands for the properties of an object. `sure`: whether the object is sent in any case."""
        properties = schema.get("properties", {})
        return [self._member((*path, name), schema, sure=sure) for name in properties if properties[name] is not False]

    def _member(self, path: Path, schema: Mapping[str, Any], *, sure: bool) -> Leaf | Group:
        of = shape(schema["properties"][path[-1]], self._subschemas)
        required = path[-1] in schema.get("required", ())
        if of.is_record and len(path) <= MAX_DEPTH:
            sure = sure and _is_sent(of, required=required)
            return Group(path, of, required, self._members(path, of.schema, sure=sure))
        self._left -= 1
        if self._left < 0:
            raise NoFieldsError
        leaf = Leaf(path, of, required, field_of(of, self._subschemas, required=required))
        is_needed = sure and required and leaf.when_empty is MISSING
        leaf.field.required = is_needed and not isinstance(leaf.field, Check)
        return leaf


def _is_sent(of: Shape, *, required: bool) -> bool:
    """Whether an object is sent whatever is filled in."""
    return required and not of.nullable


def _name(path: Path) -> str:
    """Of a path of the schema's own names and no number: an argument that has moved keeps it."""
    return "/".join([PREFIX, *(quote(step, safe="") for step in path)])
