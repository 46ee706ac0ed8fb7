"""A form made from a tool's declaration: the function's arguments, and the catalogue's errors beside their fields."""

import enum
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from django.core.exceptions import NON_FIELD_ERRORS
from pydantic import BaseModel, Field

from mcp_app.admin.arguments.form import JSONForm
from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.catalogue.registry import RegisteredTool, registered_tools, tool
from tests.admin.argument_forms import TEXT, assert_faults, form_of, posted, untouched


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    """A part."""

    name: str
    size: int = 3


def declared(function: Any, **options: Any) -> RegisteredTool:
    with isolated_registries():
        tool(**options)(function)
        return next(reversed(registered_tools().values()))


def order(
    name: Annotated[str, Field(max_length=5)],
    count: Annotated[int, Field(ge=1)],
    colours: list[Colour],
    part: Part,
    price: Decimal,
    size: Literal["s", "m"] = "m",
    when: date | None = None,
    at: datetime | None = None,
    mail: str | None = None,
    extra: dict[str, int] = {},  # noqa: B006 - never changed
    urgent: bool = True,
    maybe: Part | None = None,
) -> None: ...


FILLED = {
    "argument/name": "axle",
    "argument/count": "2",
    "argument/colours": ['"blue"', '"red"'],
    "argument/part/name": "hub",
    "argument/price": '"9.99"',
    "argument/at": "2026-11-22T15:30",
}


def test_a_function_s_arguments_are_what_the_form_of_its_signature_makes(settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    registered = declared(order)
    form = form_of(registered.signature.input_schema)
    filled = form_of(registered.signature.input_schema, {**untouched(form), **FILLED})
    assert filled.is_valid(), filled.errors
    bound = bind(registered, filled.arguments)
    assert bound["colours"] == [Colour.RED, Colour.BLUE]
    assert (bound["part"], bound["price"], bound["size"]) == (Part(name="hub"), Decimal("9.99"), "m")
    assert (bound["when"], bound["maybe"], bound["urgent"], bound["extra"]) == (None, None, True, {})
    assert bound["at"].isoformat() == "2026-11-22T15:30:00+00:00"
    assert filled.arguments.keys().isdisjoint({"when", "mail", "maybe"})


def test_what_the_catalogue_finds_wrong_stands_beside_the_field_that_it_is_about() -> None:
    registered = declared(order)
    form = form_of(registered.signature.input_schema)
    changed = {"argument/name": "too long", "argument/count": "0", "argument/extra": '{"a": "b"}'}
    filled = form_of(registered.signature.input_schema, {**untouched(form), **FILLED, **changed})
    assert filled.is_valid(), filled.errors
    with pytest.raises(InvalidArguments) as caught:
        bind(registered, filled.arguments)
    filled.add_problems(caught.value.problems)
    assert_faults(
        filled,
        {
            "argument/name": ("at most 5 characters", '"too long"'),
            "argument/count": ("greater than or equal to 1", "not 0"),
            "argument/extra": ("a:", "integer", '"b"'),
        },
    )


def test_what_an_explicit_schema_finds_wrong_stands_there_as_well() -> None:
    def take(arguments: dict[str, Any]) -> None: ...

    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^x"}, "b": {"properties": {"c": {"minimum": 3}}}},
        "minProperties": 3,
    }
    registered = declared(take, input_schema=schema)
    form = form_of(schema, {"argument/a": "y", "argument/b": '{"c": 1}'})
    assert form.is_valid()
    with pytest.raises(InvalidArguments) as caught:
        bind(registered, form.arguments)
    form.add_problems(caught.value.problems)
    assert_faults(
        form,
        {
            "argument/a": ("pattern", '"^x"'),
            "argument/b": ("c:", "at least 3"),
            NON_FIELD_ERRORS: ("minProperties 3",),
        },
    )


def test_all_arguments_can_be_filled_in_as_one_object() -> None:
    form = JSONForm(posted({"json": '{"a": {"b": [1]}}'}))
    assert form.is_valid()
    assert form.arguments == {"a": {"b": [1]}}
    empty = JSONForm(posted({"json": ""}))
    assert empty.is_valid()
    assert empty.arguments == {}
    assert not JSONForm(posted({"json": "[1]"})).is_valid()
    assert JSONForm(arguments={"a": 1})["json"].value() == '{\n  "a": 1\n}'


def test_arguments_that_the_fields_cannot_show_are_known() -> None:
    root = {"type": "object", "properties": {"x": TEXT, "y": {"type": "integer"}}}
    assert form_of(root).shows({})
    for given in ({"z": 1}, {"y": "1"}, {"x": "a\rb"}, {"x": ""}, {"x": None}, {"y": 1.5}):
        assert not form_of(root, arguments=given).shows(given)
