"""Clients see a tool's signature and docstring."""

import enum
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import mcp_types
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.content.blocks import Audio, Image
from mcp_app.catalogue.errors import InvalidTool
from mcp_app.catalogue.registry import RegisteredTool, registered_tools, tool
from mcp_app.catalogue.schema.signature import Context
from tests.catalogue import declared


class Colour(enum.Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Box:
    corner: Point


class Options(TypedDict):
    depth: int


def register(function: Any, **options: Any) -> RegisteredTool:
    tool(**options)(function)
    return next(reversed(registered_tools().values()))


def test_parameters_become_properties_with_their_defaults_and_descriptions() -> None:
    schema = register(declared.find_usages).signature.input_schema

    assert schema == {
        "type": "object",
        "properties": {
            "symbol": {"type": "string", "description": "what to look for", "minLength": 1},
            "limit": {"type": "integer", "default": 10},
        },
        "required": ["symbol"],
        "additionalProperties": False,
    }


def test_docstring_is_the_description_up_to_its_sections() -> None:
    assert register(declared.find_usages).description == ("Find where a symbol is used.\n\nLooks in every package.")


def test_description_is_never_empty() -> None:
    def purge_cache() -> None: ...

    assert register(purge_cache).description == "Purge cache"


def test_context_is_found_by_its_annotation_even_as_text_and_is_no_argument() -> None:
    signature = register(declared.find_usages).signature

    assert signature.context_parameter == "context"
    assert "context" not in signature.input_schema["properties"]


def test_two_context_parameters_are_refused() -> None:
    def confused(first: Context, second: Context) -> None: ...

    with pytest.raises(InvalidTool, match=r"\) .*context.* first and second"):
        tool(confused)


def test_tool_without_parameters_takes_exactly_nothing() -> None:
    def now(context: Context) -> str: ...

    assert register(now).signature.input_schema == {"type": "object", "additionalProperties": False}


def test_rich_types_are_described_and_bound() -> None:
    def draw(
        colour: Colour, box: Box, options: Options, day: date, kind: Literal["a", "b"], ends: tuple[int, int]
    ) -> None: ...

    drawing = register(draw)
    schema = drawing.signature.input_schema
    assert schema["properties"]["colour"] == {"enum": ["red"], "type": "string"}
    assert schema["properties"]["box"]["properties"]["corner"]["properties"]["x"] == {"type": "integer"}
    assert "$ref" not in json.dumps(schema)
    arguments = {
        "colour": "red",
        "box": {"corner": {"x": 1}},
        "options": {"depth": 2},
        "day": "2026-07-28",
        "kind": "b",
        "ends": [1, 2],
    }
    assert bind(drawing, arguments) == {
        "colour": Colour.RED,
        "box": Box(Point(x=1)),
        "options": {"depth": 2},
        "day": date(2026, 7, 28),
        "kind": "b",
        "ends": (1, 2),
    }


def test_parameter_names_that_pydantic_uses_itself_are_free() -> None:
    def odd(json: str, model_config: int, copy: bool = False, _hidden: int = 1) -> None: ...

    bound = bind(register(odd), {"json": "{}", "model_config": 1, "_hidden": 2})
    assert bound == {"json": "{}", "model_config": 1, "copy": False, "_hidden": 2}


def test_defaults_may_stand_in_a_field() -> None:
    def search(text: str, limit: int = Field(5, ge=1, description="at most")) -> None: ...

    searching = register(search)
    assert searching.signature.input_schema["properties"]["limit"] == {
        "type": "integer",
        "default": 5,
        "minimum": 1,
        "description": "at most",
    }
    assert bind(searching, {"text": ""}) == {"text": "", "limit": 5}


def test_mutable_default_is_not_shared_between_calls() -> None:
    def collect(items: list[int] = []) -> None: ...  # noqa: B006 - the subject of this test

    collecting = register(collect)
    bind(collecting, {})["items"].append(1)
    assert bind(collecting, {}) == {"items": []}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Point, {"type": "object"}),
        (Box, {"type": "object"}),
        (Options, {"type": "object"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object"}),
        (int, {"type": "integer"}),
        (Point | None, {}),
    ],
)
def test_structured_return_annotation_is_the_output_schema(annotation: Any, schema: dict[str, Any]) -> None:
    def produce() -> Any: ...

    produce.__annotations__["return"] = annotation
    output = register(produce).signature.output_schema
    assert output is not None
    assert schema.items() <= output.items()


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        None,
        Any,
        bytes,
        Image,
        Audio,
        str | None,
        str | Point,
        mcp_types.CallToolResult,
        mcp_types.TextContent,
        mcp_types.ContentBlock,
        list[mcp_types.ContentBlock],
        list[str | Image],
        Sequence[Image],
        Iterable[mcp_types.ContentBlock],
        Annotated[str, "said"],
    ],
)
def test_text_and_content_annotations_promise_no_structure(annotation: Any) -> None:
    def produce() -> Any: ...

    produce.__annotations__["return"] = annotation
    assert register(produce).signature.output_schema is None


def test_unannotated_function_promises_no_structure_and_takes_anything() -> None:
    def loose(value):  # type: ignore[no-untyped-def]
        return value

    loosely = register(loose)
    assert loosely.signature.output_schema is None
    assert bind(loosely, {"value": [1, None]}) == {"value": [1, None]}


def test_unsuitable_signatures_are_refused_with_the_reason() -> None:
    def variadic(*values: int) -> None: ...
    def by_position(value: int, /) -> None: ...
    def anything(**values: int) -> None: ...
    def undefined(value: "Later") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def aliased(value: Annotated[int, Field(alias="other")]) -> None: ...

    for function, reason in [
        (variadic, r" \*values: int .*by name"),
        (by_position, " value: int .*by name"),
        (anything, r" \*\*values: int .*by name"),
        (undefined, "'Later' .*TYPE_CHECKING"),
        (aliased, r"\bvalue\b.*\balias\b"),
    ]:
        with pytest.raises(InvalidTool, match=reason):
            tool(function)


def test_parameter_that_json_cannot_carry_is_refused() -> None:
    class Connection: ...

    def use(connection: Any) -> None: ...

    use.__annotations__["connection"] = Connection
    with pytest.raises(InvalidTool, match=r"The tool 'use' \(tests\.catalogue.*JSON cannot represent"):
        tool(use)


def test_explicit_schema_is_kept_verbatim_and_its_arguments_arrive_as_one_dict() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "examples": [{"a": 1}]}

    def take(arguments: dict[str, Any], context: Context) -> str: ...

    taking = register(take, input_schema=schema)
    assert taking.signature.input_schema == schema
    assert bind(taking, {"a": 1, "b": 2}) == {"arguments": {"a": 1, "b": 2}}


def test_explicit_schema_with_several_parameters_is_refused() -> None:
    def take(a: int, b: int) -> str: ...

    with pytest.raises(InvalidTool, match=r"input_schema .*one parameter"):
        tool(input_schema={"type": "object"})(take)
