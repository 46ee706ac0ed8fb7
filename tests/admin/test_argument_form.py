"""A form made from a tool's schema: its fields, their initial values, and the resulting arguments."""

import json
from typing import Any

import pytest
from django.core.exceptions import NON_FIELD_ERRORS
from django.forms import CheckboxInput, Select, SelectMultiple, Textarea, TextInput
from pydantic import BaseModel

from mcp_app.admin.arguments.fields import LinesField, Text
from mcp_app.admin.arguments.form import ArgumentsForm
from mcp_app.admin.arguments.tree import NoFieldsError
from tests.admin.argument_forms import TEXT, X, arguments, assert_faults, form_of, untouched
from tests.admin.hostile import REVERSED, SCRIPT


class Part(BaseModel):
    """A part."""

    name: str
    size: int = 3


class Node(BaseModel):
    name: str
    below: "list[Node]" = []
    next: "Node | None" = None


TITLED = [{"const": "a", "title": "Ant"}, {"const": "b", "title": "Bee"}]

FIELDS = {
    "text": (TEXT, Textarea, "text", "two\r\nlines ", "two\nlines "),
    "integer": ({"type": "integer"}, TextInput, "text", " 12345678901234567890 ", 12345678901234567890),
    "whole float": ({"type": "integer"}, TextInput, "text", "5.0", 5),
    "number": ({"type": "number"}, TextInput, "text", "-1.5e3", -1500.0),
    "whole number": ({"type": "number"}, TextInput, "text", "7", 7),
    "boolean": ({"type": "boolean", "default": False}, CheckboxInput, "checkbox", "on", True),
    "boolean of three": ({"type": "boolean"}, Select, "select", "false", False),
    "enum": ({"enum": ["a", 1, None, 1.5, True]}, Select, "select", "1", 1),
    "enum's null": ({"enum": ["a", None]}, Select, "select", "null", None),
    "const": ({"const": "only"}, Select, "select", '"only"', "only"),
    "oneOf with titles": ({"type": "string", "oneOf": TITLED}, Select, "select", '"b"', "b"),
    "anyOf with titles": ({"anyOf": TITLED}, Select, "select", '"a"', "a"),
    "enumNames": ({"type": "string", "enum": ["a"], "enumNames": ["Ant"]}, Select, "select", '"a"', "a"),
    "date": ({**TEXT, "format": "date"}, TextInput, "date", "2026-11-22", "2026-11-22"),
    "date-time": (
        {**TEXT, "format": "date-time"}, TextInput, "datetime-local", "2026-11-22T15:30:07", "2026-11-22T15:30:07Z",
    ),
    "uri": ({**TEXT, "format": "uri"}, TextInput, "url", "https://example.org/a?b", "https://example.org/a?b"),
    "email": ({**TEXT, "format": "email"}, TextInput, "email", "ada@example.org", "ada@example.org"),
    "texts": ({"type": "array", "items": TEXT}, Textarea, None, "a b\r\n\r\nc\r\n", ["a b", "c"]),
    "numbers": ({"type": "array", "items": {"type": "number"}}, Textarea, None, "1\r\n2.5", [1, 2.5]),
    "some of an enum": (
        {"type": "array", "items": {"enum": ["a", "b", "c"]}}, SelectMultiple, "select", ['"c"', '"a"'], ["a", "c"],
    ),
    "nullable": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, TextInput, "text", "3", 3),
    "type with null": ({"type": ["integer", "null"]}, TextInput, "text", "3", 3),
    "union": ({"type": ["integer", "string"]}, Textarea, None, '"3"', "3"),
    "anything": ({}, Textarea, None, '{"a": [1, null]}', {"a": [1, None]}),
    "mapping": ({"type": "object", "additionalProperties": TEXT}, Textarea, None, '{"a": "b"}', {"a": "b"}),
    "tuple": ({"type": "array", "prefixItems": [TEXT, TEXT]}, Textarea, None, '["a", "b"]', ["a", "b"]),
    "array of objects": ({"type": "array", "items": {"type": "object"}}, Textarea, None, "[{}]", [{}]),
    "array with nulls": ({"type": "array", "items": {"type": ["string", "null"]}}, Textarea, None, "[null]", [None]),
}  # fmt: skip


@pytest.mark.parametrize("kind", FIELDS)
def test_each_kind_of_schema_has_its_field_and_its_value_comes_back(kind: str, settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    schema, widget, input_type, filled, value = FIELDS[kind]
    made = form_of(schema).fields[X].widget
    assert isinstance(made, widget)
    assert getattr(made, "input_type", None) == (input_type if widget is not Textarea else None)
    assert arguments(schema, {X: filled}) == {"x": value}
    assert type(arguments(schema, {X: filled})["x"]) is type(value)
    again = form_of(schema, arguments={"x": value})
    assert again.shows({"x": value})
    assert arguments(schema, untouched(again)) == {"x": value}


def test_a_time_on_a_site_without_time_zones_is_in_its_zone(settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
    schema = {**TEXT, "format": "date-time"}
    read = arguments(schema, {X: "2026-11-22T15:30:07"})
    assert read == {"x": "2026-11-22T15:30:07-05:00"}
    assert arguments(schema, untouched(form_of(schema, arguments=read))) == read


@pytest.mark.parametrize("kind", FIELDS)
def test_what_is_left_empty_is_left_out_and_a_default_is_shown_and_sent(kind: str) -> None:
    schema, _, _, _, value = FIELDS[kind]
    if kind != "boolean":
        assert arguments(schema, untouched(form_of(schema))) == {}
    with_default = {**schema, "default": value}
    if value is not None:
        assert arguments(with_default, untouched(form_of(with_default))) == {"x": value}


EMPTIED = {
    "text": ({"type": "string", "default": "a"}, False, {"x": ""}),
    "number": ({"type": "integer", "default": 1}, False, {}),
    "nullable": ({"type": ["integer", "null"], "default": 1}, False, {"x": None}),
    "array": ({"type": "array", "items": TEXT, "default": ["a"]}, False, {"x": []}),
    "required array": ({"type": "array", "items": TEXT}, True, {"x": []}),
    "required nullable": ({"type": ["string", "null"]}, True, {"x": None}),
    "required boolean": ({"type": "boolean"}, True, {"x": False}),
}


@pytest.mark.parametrize("kind", EMPTIED)
def test_what_an_emptied_field_means(kind: str) -> None:
    schema, required, expected = EMPTIED[kind]
    root = {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}
    assert arguments(root, {X: ""}) == expected


@pytest.mark.parametrize("type_", ["string", "integer", "number"])
def test_what_is_required_and_empty_is_an_error_beside_its_field(type_: str) -> None:
    root = {"type": "object", "properties": {"x": {"type": type_}}, "required": ["x"]}
    assert_faults(form_of(root, {}), {X: ("required",)})
    assert form_of(root).fields[X].required


@pytest.mark.parametrize(
    ("schema", "filled", "facts"),
    [
        ({"type": "integer"}, "1.5", ("whole number",)),
        ({"type": "integer"}, "true", ("whole number",)),
        ({"type": "number"}, "1e999", ("a number",)),
        ({"type": "number"}, "NaN", ("a number",)),
        ({"enum": ["a"]}, "a", ("choices",)),
        ({"type": "array", "items": {"type": "integer"}}, "1\r\nx", ("Line 2", "whole number")),
        ({}, "{", ("JSON value",)),
        ({}, '{"a": 1, "a": 2}', ("JSON value",)),
        ({}, '"\\u0000"', ("JSON value",)),
        ({}, "[" * 100_000, ("JSON value",)),
        (TEXT, "nul\0", ("Null characters",)),
        ({**TEXT, "format": "date-time"}, "yesterday", ("date/time",)),
    ],
)
def test_what_cannot_be_read_is_an_error_beside_its_field(
    schema: dict[str, Any], filled: str, facts: tuple[str, ...]
) -> None:
    assert_faults(form_of(schema, {X: filled}), {X: facts})


def test_a_default_that_a_field_cannot_show_is_shown_as_text_or_json() -> None:
    for schema, shown in (
        ({**TEXT, "format": "date", "default": "today"}, "today"),
        ({**TEXT, "format": "date-time", "default": "2026-11-22T15:30:00.5Z"}, "2026-11-22T15:30:00.5Z"),
        ({"type": "array", "items": TEXT, "default": ["a\nb"]}, '[\n  "a\\nb"\n]'),
        ({"type": "integer", "default": "many"}, '"many"'),
        ({"enum": ["a"], "default": "b"}, '"b"'),
    ):
        form = form_of(schema)
        assert form[X].value() == shown
        assert arguments(schema, untouched(form)) == {"x": schema["default"]}


def test_a_default_that_is_empty_is_an_empty_field_of_its_kind() -> None:
    for schema, kind in (
        ({**TEXT, "default": ""}, Text),
        ({"type": "array", "items": TEXT, "default": []}, LinesField),
    ):
        form = form_of(schema)
        assert type(form.fields[X]) is kind
        assert arguments(schema, untouched(form)) == {}


PARTS = {
    "type": "object",
    "properties": {"sure": {"$ref": "#/$defs/Part"}, "maybe": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]}},
    "required": ["sure"],
    "$defs": {"Part": Part.model_json_schema()},
}


def test_an_object_has_fields_of_its_own_and_one_that_is_optional_is_sent_when_it_is_meant() -> None:
    form = form_of(PARTS)
    assert [(part.name, part.fields) for part in form.sections()] == [
        ("sure", ["argument/sure/name", "argument/sure/size"]),
        ("maybe", ["argument/maybe?", "argument/maybe/name", "argument/maybe/size"]),
    ]
    sure = {**untouched(form), "argument/sure/name": "axle"}
    assert arguments(PARTS, sure) == {"sure": {"name": "axle", "size": 3}}
    both = {"sure": {"name": "axle", "size": 3}, "maybe": {"name": "hub", "size": 3}}
    assert arguments(PARTS, {**sure, "argument/maybe/name": "hub"}) == both
    assert_faults(form_of(PARTS, {**sure, "argument/maybe?": "on"}), {"argument/maybe/name": ("required",)})
    shown = form_of(PARTS, arguments=both)
    assert shown.shows(both)
    assert arguments(PARTS, untouched(shown)) == both


def test_an_object_that_may_be_null_is_null_where_it_must_be_said() -> None:
    maybe = PARTS["properties"]["maybe"]
    for schema, sent in (
        ({"properties": {"maybe": maybe}}, {}),
        ({"properties": {"maybe": maybe}, "required": ["maybe"]}, {"maybe": None}),
        ({"properties": {"maybe": {**maybe, "default": {"name": "hub", "size": 1}}}}, {"maybe": None}),
    ):
        root = {"type": "object", **schema, "$defs": PARTS["$defs"]}
        untold = {name: value for name, value in untouched(form_of(root)).items() if not name.endswith("?")}
        assert arguments(root, untold) == sent


def test_what_is_required_in_an_optional_object_is_not_required_of_a_browser() -> None:
    form = form_of(PARTS)
    assert form.fields["argument/sure/name"].required
    assert not form.fields["argument/maybe/name"].required


def test_a_schema_that_goes_on_for_ever_ends_in_json() -> None:
    schema = Node.model_json_schema()
    root = {"type": "object", "properties": {"x": {"$ref": "#/$defs/Node"}}, "$defs": schema["$defs"]}
    form = form_of(root)
    assert max(name.count("/") for name in form.fields) == 4
    deepest = {"name": "d", "below": [{"name": "e"}], "next": {"name": "f"}}
    value = {"x": {"name": "b", "below": [], "next": {"name": "c", "below": [], "next": deepest}}}
    shown = form_of(root, arguments=value)
    assert shown.shows(value)
    assert arguments(root, untouched(shown)) == value


def test_a_schema_that_names_nothing_or_very_much_has_no_form() -> None:
    for schema in ({}, {"additionalProperties": TEXT}, {"patternProperties": {"a": TEXT}}):
        with pytest.raises(NoFieldsError):
            ArgumentsForm({"type": "object", **schema})
    assert not ArgumentsForm({"type": "object", "additionalProperties": False}).fields
    with pytest.raises(NoFieldsError):
        form_of({"type": "object", "properties": {f"p{number}": TEXT for number in range(201)}})
    loop = {"type": "object", "properties": {f"p{number}": {"$ref": "#/$defs/Loop"} for number in range(99)}}
    with pytest.raises(NoFieldsError):
        form_of({**loop, "$defs": {"Loop": loop}})


def test_names_and_texts_of_a_schema_are_words() -> None:
    name = f'"{SCRIPT}\n/é {REVERSED}'
    field = {"type": "string", "description": SCRIPT + REVERSED, "title": SCRIPT, "enum": [SCRIPT, "b"]}
    group = {"type": "object", "description": SCRIPT, "properties": {name: field}, "required": [name]}
    root = {"type": "object", "properties": {name: group, SCRIPT: TEXT}}
    form = form_of(root)
    markup = form.as_p() + "".join(part.description or "" for part in form.sections())
    assert "<script" not in markup
    assert "\u202e" not in markup
    [leaf] = [each for each in form.fields if each.count("/") == 2]
    assert leaf.isascii()
    assert arguments(root, {leaf: json.dumps(SCRIPT)}) == {name: {name: SCRIPT}}


def test_a_field_that_the_schema_does_not_have_any_more_is_not_dropped_in_silence() -> None:
    form = form_of({"type": "integer"}, {"argument/only_inactive": "on"})
    assert_faults(form, {NON_FIELD_ERRORS: ("tool has changed",)})
