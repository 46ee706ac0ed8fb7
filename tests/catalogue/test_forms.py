"""Forms: the flat subset of JSON Schema (2026-07-28 client/elicitation), and no secrets in it."""

import datetime as dt
import enum
from typing import Annotated, Literal

import pytest
from pydantic import AnyUrl, BaseModel, Field, SecretStr

from mcp_app.catalogue.errors import InvalidForm, InvalidPrompt, InvalidResource, InvalidTool
from mcp_app.catalogue.input.forms import requested_schema
from mcp_app.catalogue.prompts import prompt
from mcp_app.catalogue.registry import tool
from mcp_app.catalogue.resources import resource


class Size(enum.StrEnum):
    SMALL = "small"
    LARGE = "large"


class Everything(BaseModel):
    """A docstring, which is no part of a form."""

    name: str = Field(title="Your name", max_length=20)
    age: int = Field(ge=0, le=150, default=30)
    score: float = 95.5
    member: bool = True
    day: dt.date
    page: AnyUrl
    size: Size = Size.SMALL
    only: Literal["this"] = "this"
    colour: Literal["red", "green"] = "red"
    toppings: Annotated[list[Literal["ham", "olives"]], Field(min_length=1)]
    sizes: list[Size] = []


def field(**members):
    return {"type": "object", "properties": {"x": members}}


def test_a_model_of_plain_fields_is_a_form():
    form = requested_schema(Everything)
    assert set(form) == {"type", "properties", "required"}
    assert form["required"] == ["name", "day", "page", "toppings"]
    fields = form["properties"]
    assert fields["name"] == {"type": "string", "title": "Your name", "maxLength": 20}
    assert fields["age"] == {"type": "integer", "title": "Age", "minimum": 0, "maximum": 150, "default": 30}
    assert fields["size"] == {"type": "string", "title": "Size", "enum": ["small", "large"], "default": "small"}
    assert fields["only"]["enum"] == ["this"]
    assert fields["toppings"]["items"] == {"type": "string", "enum": ["ham", "olives"]}
    assert fields["sizes"]["items"] == {"type": "string", "enum": ["small", "large"]}
    assert fields["day"]["format"] == "date"
    assert fields["page"]["format"] == "uri"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        field(type="string", format="email", default="a@example.com", description="Where to write"),
        field(type="string", enum=["a", "b"], enumNames=["A", "B"]),
        field(type="string", oneOf=[{"const": "a", "title": "A"}], default="a"),
        field(type="array", items={"anyOf": [{"const": "a", "title": "A"}]}, minItems=1, default=["a"]),
        field(type="integer", minimum=1) | {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        field(type="integer", title="Tokens to spend"),
        field(type="boolean", title="Forget the password"),
    ],
    ids=str,
)
def test_the_subset_passes_as_it_stands(schema):
    assert requested_schema(schema) == schema


@pytest.mark.parametrize(
    ("schema", "facts"),
    [
        ({"type": "string"}, ['"type": "object"']),
        ({"type": "object", "properties": {}, "additionalProperties": False}, ["additionalProperties"]),
        ({"type": "object", "properties": {}, "required": ["x"]}, ["required", "properties"]),
        (field(type="object", properties={}), ["x: ", "boolean"]),
        (field(type=["string", "null"]), ["x: ", "unions"]),
        (field(anyOf=[{"type": "string"}, {"type": "null"}]), ["x: ", "unions"]),
        (field(type="string", pattern="^a$"), ["x: ", "pattern", "minLength, maxLength"]),
        (field(type="string", format="ipv4"), ["x: ", "format", "date-time"]),
        (field(type="integer", default="1"), ["x: ", "default", "wrong type"]),
        (field(type="integer", enum=[1, 2]), ["x: ", "boolean"]),
        (field(type="string", enum=["a"], enumNames=["A", "B"]), ["x: ", "enumNames", "each"]),
        (field(type="string", oneOf=[{"const": "a"}]), ["x: ", "oneOf", "const", "title"]),
        (field(type="array", items={"type": "string"}), ["x: ", "items", "anyOf"]),
        (field(type="array", items={"type": "integer", "enum": [1]}), ["x: ", "choices", "strings"]),
        (field(type="string", description="See https://example.com"), ["x: ", "links", "elicit_url"]),
        (field(type="string", enum=["a"], enumNames=["https://example.com"]), ["x: ", "links", "elicit_url"]),
        (field(type="string", oneOf=[{"const": "a", "title": "See http://example.com"}]), ["x: ", "links"]),
        (field(type="array", items={"anyOf": [{"const": "a", "title": "https://example.com"}]}), ["x: ", "links"]),
        (field(type="string", format="password"), ["x: ", "secrets", "elicit_url"]),
        (field(type="string", title="Your API key"), ["x: ", "secrets"]),
        ({"type": "object", "properties": {"accessToken": {"type": "string"}}}, ["accessToken: ", "secrets"]),
        ({"type": "object", "properties": {"new_password": {"type": "string"}}}, ["new_password: ", "secrets"]),
        ({"type": "object", "properties": {"card_number": {"type": "string"}}}, ["card_number: ", "secrets"]),
        ({"type": "object", "properties": {"apiKeys": {"type": "string"}}}, ["apiKeys: ", "secrets"]),
    ],
    ids=str,
)
def test_anything_else_is_refused_with_what_to_change(schema, facts):
    with pytest.raises(InvalidForm) as caught:
        requested_schema(schema)
    assert [fact for fact in facts if fact not in str(caught.value)] == []


class Nested(BaseModel):
    inner: Everything


class Optional(BaseModel):
    name: str | None = None


class Secret(BaseModel):
    word: SecretStr


class Undrawable(BaseModel):
    when: dt.timedelta


@pytest.mark.parametrize("model", [Nested, Optional, Secret, Undrawable])
def test_a_model_that_is_no_form_is_refused_by_name_when_what_asks_it_is_registered(model):
    with pytest.raises(InvalidForm, match=f"^{model.__name__} "):
        requested_schema(model)

    def ask() -> str:
        """Ask."""
        return ""

    reason = rf"\(tests\.catalogue\.test_forms\..*\) .*\b{model.__name__}\b"
    with pytest.raises(InvalidTool, match=rf"tool 'ask' {reason}"):
        tool(asks=[Everything, model])(ask)
    with pytest.raises(InvalidPrompt, match=rf"prompt 'ask' {reason}"):
        prompt(asks=[Everything, model])(ask)
    with pytest.raises(InvalidResource, match=rf"resource 'x://a' {reason}"):
        resource("x://a", asks=[Everything, model])(ask)
