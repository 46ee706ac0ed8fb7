"""Schemas have references only for recursive definitions, and no generated titles."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.catalogue.registry import RegisteredTool, registered_tools, tool
from mcp_app.catalogue.schema.inlining import MAX_GROWTH_BYTES, inlined


class Size(Enum):
    """How large it is."""

    SMALL = "s"
    LARGE = "l"


class Box(BaseModel):
    size: Size = Size.SMALL


class Titled(BaseModel):
    model_config = ConfigDict(title="A thing with a title")
    name: str = Field(title="What it is called")


class Node(BaseModel):
    """A part of a tree."""

    size: Size
    parts: list["Node"] = []


class Even(BaseModel):
    odd: "Odd | None" = None


class Odd(BaseModel):
    even: Even


class Options(TypedDict):
    depth: int


@dataclass
class Corner:
    x: int


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


SIZE = {"description": "How large it is.", "enum": ["s", "l"], "type": "string"}
NODE = {
    "description": "A part of a tree.",
    "properties": {"size": SIZE, "parts": {"default": [], "items": {"$ref": "#/$defs/Node"}, "type": "array"}},
    "required": ["size"],
    "type": "object",
}


def register(function: Any) -> RegisteredTool:
    tool(function)
    return next(reversed(registered_tools().values()))


def schema_of(annotation: Any) -> dict[str, Any]:
    """Return the input schema of a tool with one parameter."""

    def use(value): ...  # type: ignore[no-untyped-def]

    use.__annotations__ = {"value": annotation}
    use.__name__ = f"use_{getattr(annotation, '__name__', 'it')}"
    return register(use).signature.input_schema


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Size, SIZE),
        (Size | None, {"anyOf": [SIZE, {"type": "null"}]}),
        (Box, {"type": "object", "properties": {"size": {**SIZE, "default": "s"}}}),
        (
            Annotated[Size, Field(description="of the box", examples=["s"])],
            {**SIZE, "description": "of the box", "examples": ["s"]},
        ),
        (
            list[Options],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"depth": {"type": "integer"}},
                    "required": ["depth"],
                },
            },
        ),
        (
            Corner,
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {"x": {"type": "integer"}},
                "required": ["x"],
            },
        ),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"type": "string", "const": kind}}, "required": ["kind"]}
                    for kind in ("cat", "dog")
                ]
            },
        ),
    ],
    ids=["enum", "or null", "nested", "described", "typed dict", "dataclass", "tagged"],
)
def test_definitions_take_the_place_of_references(annotation: Any, expected: Any) -> None:
    schema = schema_of(annotation)
    assert schema["properties"]["value"] == expected
    assert "$defs" not in schema


def test_titles_that_an_author_wrote_are_kept() -> None:
    titled = schema_of(Titled)["properties"]["value"]
    assert titled["title"] == "A thing with a title"
    assert titled["properties"]["name"]["title"] == "What it is called"


def test_what_contains_itself_is_referred_to() -> None:
    schema = schema_of(dict[str, Node])
    assert schema["properties"]["value"]["additionalProperties"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"] == {"Node": NODE}
    schema = schema_of(Odd)
    assert schema["$defs"].keys() == {"Odd"}
    with pytest.raises(InvalidArguments, match=r"value\.even\.odd\.even"):
        bind(registered_tools()["use_Odd"], {"value": {"even": {"odd": {"even": 1}}}})


def test_a_tree_that_is_returned_is_an_object_at_its_root() -> None:
    def grow() -> Node: ...

    assert register(grow).signature.output_schema == {**NODE, "$defs": {"Node": NODE}}


def test_keywords_that_restrict_beside_a_reference_hold_as_well() -> None:
    restricted = {
        "$defs": {"A": {"minimum": 1}},
        "properties": {"a": {"$ref": "#/$defs/A", "minimum": 5, "title": "T"}},
    }
    assert inlined(restricted) == {"properties": {"a": {"allOf": [{"minimum": 1}], "minimum": 5, "title": "T"}}}


@pytest.mark.parametrize("reference", ["#/properties/b", "#", "#/$defs/A/items", "#named"])
def test_references_to_other_places_leave_a_schema_as_it_is(reference: str) -> None:
    schema = {
        "$defs": {"A": {"$anchor": "named", "items": {}}},
        "properties": {"a": {"$ref": reference}, "b": {"$ref": "#/$defs/A"}},
    }
    assert inlined(schema) is schema


def test_what_only_looks_like_a_reference_is_data() -> None:
    data = {"$ref": "#/$defs/A"}
    schema = {"$defs": {"A": {"type": "object"}}, "properties": {"a": {"$ref": "#/$defs/A", "default": data}}}
    assert inlined(schema) == {"properties": {"a": {"type": "object", "default": data}}}


@pytest.mark.fault("G10")
def test_definitions_that_double_with_every_level_stay() -> None:
    levels = 40
    definitions: dict[str, Any] = {
        f"D{level}": {"properties": {side: {"$ref": f"#/$defs/D{level + 1}"} for side in ("left", "right")}}
        for level in range(levels)
    }
    definitions[f"D{levels}"] = {"type": "integer"}
    schema = {"$defs": definitions, "properties": {"top": {"$ref": "#/$defs/D0"}}}
    found = inlined(schema)
    assert len(json.dumps(found)) <= len(json.dumps(schema)) + MAX_GROWTH_BYTES
    assert 0 < len(found["$defs"]) < levels


def test_a_large_definition_that_is_used_once_is_inlined_and_one_that_is_used_often_stays() -> None:
    large = {"description": "x" * 2_000}
    often = {"anyOf": [{"$ref": "#/$defs/Large"}] * 4}
    assert inlined({"$defs": {"Large": large}, "items": {"$ref": "#/$defs/Large"}}) == {"items": large}
    assert inlined({"$defs": {"Large": large}, **often}) == {"$defs": {"Large": large}, **often}


def test_what_was_made_is_smaller_than_what_pydantic_makes() -> None:
    def use(first: Size, second: Size | None = None, boxes: list[Box] = [], tree: Node | None = None) -> None: ...  # noqa: B006

    registered = register(use)
    model = registered.signature.model
    assert model is not None
    assert len(json.dumps(registered.signature.input_schema)) < len(json.dumps(model.model_json_schema()))
