"""`x-mcp-header` is accepted only where clients must mirror it (2026-07-28 server/tools "x-mcp-header")."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from mcp_app.catalogue.errors import InvalidTool
from mcp_app.catalogue.registry import registered_tools, tool


def header_params(**properties: Any) -> dict[str, tuple[str, ...]]:
    return of_schema({"type": "object", "properties": properties})


def of_schema(schema: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    @tool(name="mirrored", input_schema=schema)
    def take(arguments: dict[str, Any]) -> str: ...

    return dict(registered_tools()["mirrored"].header_params)


def marked(kind: Any = "string", name: Any = "Region") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_primitive_property_is_mirrored(kind: str) -> None:
    assert header_params(region=marked(kind)) == {"Region": ("region",)}


def test_nested_property_is_mirrored_by_its_path() -> None:
    nested = {"type": "object", "properties": {"properties": marked("integer", "Depth")}}
    assert header_params(a=nested, b=marked()) == {"Depth": ("a", "properties"), "Region": ("b",)}


def test_property_that_is_called_like_the_keyword_is_no_annotation() -> None:
    assert header_params(**{"x-mcp-header": {"type": "number"}}) == {}


@pytest.mark.parametrize("name", ["", " ", "Re gion", "Región", "a:b", "a\r\nX: 1", "a\n", "(a)", 7, None, ["a"]])
def test_name_that_is_no_field_name_token_is_refused(name: Any) -> None:
    with pytest.raises(InvalidTool, match=r"#/properties/a: x-mcp-header .*token"):
        header_params(a=marked(name=name))


@pytest.mark.parametrize("name", ["Region", "x-y_z", "0", "!#$%&'*+-.^_`|~"])
def test_every_token_is_a_name(name: str) -> None:
    assert header_params(a=marked(name=name)) == {name: ("a",)}


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string", "null"]])
def test_type_without_one_text_form_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidTool, match=r"#/properties/a: x-mcp-header .*boolean"):
        header_params(a=marked(kind))


@pytest.mark.parametrize(
    ("name", "schema"), [("password", {}), ("apiKey", {}), ("a", {"title": "Token"}), ("a", {"writeOnly": True})]
)
def test_a_secret_is_not_repeated_in_a_header(name: str, schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool, match=f"#/properties/{name}: x-mcp-header .*secret"):
        header_params(**{name: {**marked(), **schema}})


def test_names_are_unique_whatever_their_case() -> None:
    with pytest.raises(InvalidTool, match="used twice"):
        header_params(a=marked(name="Region"), b=marked(name="REGION"))


@pytest.mark.parametrize(
    "schema",
    [
        marked("object"),
        {"type": "object", "properties": {"a": {"type": "array", "items": marked()}}},
        {"type": "object", "properties": {"a": {"prefixItems": [marked()]}}},
        {"type": "object", "additionalProperties": marked()},
        {"type": "object", "patternProperties": {"a": marked()}},
        {"type": "object", "allOf": [{"properties": {"a": marked()}}]},
        {"type": "object", "anyOf": [{"properties": {"a": marked()}}]},
        {"type": "object", "oneOf": [{"properties": {"a": marked()}}]},
        {"type": "object", "not": {"properties": {"a": marked()}}},
        {"type": "object", "if": {"properties": {"a": marked()}}},
        {"type": "object", "then": {"properties": {"a": marked()}}},
        {"type": "object", "else": {"properties": {"a": marked()}}},
        {"type": "object", "dependentSchemas": {"a": {"properties": {"a": marked()}}}},
        {"type": "object", "$defs": {"d": marked()}, "properties": {"a": {"$ref": "#/$defs/d"}}},
        {"type": "object", "$defs": {"properties": {"properties": {"a": marked()}}}},
    ],
)
def test_annotation_off_the_chain_of_properties_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool, match=r"x-mcp-header .*by properties"):
        of_schema(schema)


def test_parameter_is_marked_through_its_field() -> None:
    @tool
    def query(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str: ...

    registered = registered_tools()["query"]
    assert registered.header_params == {"Region": ("region",)}
    assert registered.signature.input_schema["properties"]["region"]["x-mcp-header"] == "Region"


def test_optional_parameter_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidTool, match=r"#/properties/region: x-mcp-header .*default .*null"):

        @tool
        def query(
            region: Annotated[str | None, Field(json_schema_extra={"x-mcp-header": "Region"})] = None,
        ) -> str: ...


class Place(BaseModel):
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


class Area(Place):
    parts: "list[Area]" = []


def test_field_of_a_nested_model_is_marked() -> None:
    @tool
    def query(place: Place) -> str: ...

    assert registered_tools()["query"].header_params == {"Region": ("place", "region")}


@pytest.mark.parametrize("annotation", [list[Place], Place | None, Area], ids=["an item", "a choice", "a reference"])
def test_field_of_a_model_that_is_not_reached_by_properties_is_refused(annotation: Any) -> None:
    def query(place: Any) -> str: ...

    query.__annotations__["place"] = annotation
    with pytest.raises(InvalidTool, match=r"x-mcp-header .*by properties"):
        tool(query)
