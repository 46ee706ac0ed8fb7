"""Arguments that clients send as JSON text are parsed if the schema allows no string."""

import json
import time
from enum import IntEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcp_app.catalogue.arguments import accept, bind
from mcp_app.catalogue.errors import InvalidArguments, InvalidTool
from mcp_app.catalogue.registry import RegisteredTool, registered_tools, tool


class Place(BaseModel):
    city: str
    floor: int = 0
    parts: "list[Place]" = []


class Priority(IntEnum):
    LOW = 1
    HIGH = 2


def register(function: Any, **options: Any) -> RegisteredTool:
    tool(**options)(function)
    return next(reversed(registered_tools().values()))


def take(schema: dict[str, Any], **options: Any) -> RegisteredTool:
    def take(arguments: dict[str, Any]) -> None: ...

    return register(take, input_schema={"type": "object", **schema}, **options)


def of_one(annotation: Any) -> RegisteredTool:
    def use(value): ...  # type: ignore[no-untyped-def]

    use.__annotations__ = {"value": annotation}
    return register(use)


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (dict[str, Any], '{"a":1}', {"a": 1}),
        (list[str], '["x"]', ["x"]),
        (int, "5", 5),
        (int, " 5.0\n", 5),
        (float, "-1.5e3", -1500.0),
        (bool, "true", True),
        (int | None, "null", None),
        (int | None, "7", 7),
        (list[int] | dict[str, int], "[1]", [1]),
        (Priority, "2", Priority.HIGH),
        (Literal[1, 2], "2", 2),
        (Place, '{"city": "Lyon", "floor": 2}', Place(city="Lyon", floor=2)),
        (Place | None, '{"city": "Lyon"}', Place(city="Lyon")),
        (
            list[Place],
            ['{"city": "Lyon"}', {"city": "Metz", "floor": "1"}],
            [Place(city="Lyon"), Place(city="Metz", floor=1)],
        ),
        (
            Place,
            {"city": "1", "parts": '[{"city": "null", "parts": "[]"}]'},
            Place(city="1", parts=[Place(city="null")]),
        ),
        (dict[str, list[int]], {"a": "[1, 2]", "b": ["3"]}, {"a": [1, 2], "b": [3]}),
        (tuple[int, str], ["1", "2"], (1, "2")),
    ],
)
def test_json_text_is_read_where_no_string_is_allowed(annotation: Any, text: Any, value: Any) -> None:
    assert bind(of_one(annotation), {"value": text}) == {"value": value}


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "5"),
        (str | None, "null"),
        (str | list[str], '["x"]'),
        (int | str, "5"),
        (Any, '{"a": 1}'),
        (Literal["1", "2"], "2"),
        (list[str | int], ["1"]),
        (dict[str, Any], {"a": "1", "b": '{"c": 1}'}),
    ],
)
def test_a_string_that_the_schema_allows_stays_as_it_was_sent(annotation: Any, text: Any) -> None:
    assert bind(of_one(annotation), {"value": text}) == {"value": text}


@pytest.mark.parametrize(
    ("annotation", "text", "path", "facts"),
    [
        (int, "five", "value", ["integer", '"five"']),
        (int, "5.5", "value", ["integer", '"5.5"']),
        (int, "[5]", "value", ["integer", '"[5]"']),
        (int, '"5"', "value", ["integer", '"\\"5\\""']),
        (int, "null", "value", ["integer", '"null"']),
        (float, "NaN", "value", ["number", '"NaN"']),
        (bool, "True", "value", ["boolean", '"True"']),
        (bool, "1", "value", ["boolean", '"1"']),
        (dict[str, int], '{"a": 1, "a": 2}', "value", ["object", '"{\\"a\\": 1, \\"a\\": 2}"']),
        (list[str], '["\\u0000"]', "value", ["array"]),
        (list[str], '["\\ud800"]', "value", ["array"]),
        (Literal["a", 1], "1", "value", ["'a' or 1", '"1"']),
        # If the text can be parsed, the parsed value is validated.
        (Annotated[int, Field(le=9)], "10", "value", ["less than or equal to 9", " 10"]),
        (Place, '{"floor": "1"}', "value.city", ["required"]),
    ],
)
def test_text_that_does_not_fit_is_refused(annotation: Any, text: str, path: str, facts: list[str]) -> None:
    with pytest.raises(InvalidArguments) as caught:
        bind(of_one(annotation), {"value": text})
    _, problem = str(caught.value).split("\n")
    assert problem.startswith(f"- {path}: ")
    assert [fact for fact in facts if fact not in problem] == []


def test_only_problems_that_reading_leaves_are_told() -> None:
    def search(query: str, limit: int) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        bind(register(search), {"limit": "5"})
    _, problem = str(caught.value).split("\n")
    assert problem.startswith("- query: ")
    assert "required" in problem


def test_the_keywords_of_a_schema_are_followed() -> None:
    taking = take(
        {
            "$defs": {"count": {"type": ["integer", "null"]}, "named": {"$anchor": "here", "type": "boolean"}},
            "properties": {
                "one": {"$ref": "#/$defs/count", "description": "how many"},
                "two": {"$ref": "#here"},
                "both": {"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "object"]}]},
                "either": {"oneOf": [{"$ref": "#/$defs/count"}, {"type": "array", "items": {"$ref": "#here"}}]},
                "listed": {"enum": [1, 2.5, None]},
                "fixed": {"const": {"a": 1}},
                "row": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
                "me": {"$ref": "#"},
            },
            "patternProperties": {"^n_": {"type": "number"}},
            "additionalProperties": {"type": "array", "items": {"type": "integer"}},
        }
    )
    sent = {
        "one": "null",
        "two": "true",
        "both": "3",
        "either": '["true", false]',
        "listed": "2.5",
        "fixed": '{"a": 1}',
        "row": ["1", "2"],
        "me": '{"me": {"one": "4"}}',
        "n_1": "0.5",
        "other": ["6"],
    }
    assert bind(taking, sent)["arguments"] == {
        "one": None,
        "two": True,
        "both": 3,
        "either": [True, False],
        "listed": 2.5,
        "fixed": {"a": 1},
        "row": [1, "2"],
        "me": {"me": {"one": 4}},
        "n_1": 0.5,
        "other": [6],
    }


def test_items_of_draft_07_are_followed() -> None:
    items = {
        "type": "array",
        "items": [{"type": "integer"}, {"type": "string"}],
        "additionalItems": {"type": "boolean"},
    }
    taking = take({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"row": items}})
    assert bind(taking, {"row": '["1", "2", "true"]'})["arguments"] == {"row": [1, "2", True]}


def test_branches_for_other_types_do_not_matter_and_those_that_may_fit_all_do() -> None:
    branch: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]}
    other: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["c"]}
    taking = take({"properties": {"x": {"anyOf": [branch, {"type": "null"}]}, "y": {"anyOf": [branch, other]}}})
    assert bind(taking, {"x": {"a": "1", "b": 1}})["arguments"] == {"x": {"a": 1, "b": 1}}
    with pytest.raises(InvalidArguments):
        bind(taking, {"y": {"a": "1", "b": 1}})


def test_what_was_sent_is_not_changed_and_what_fits_is_not_read() -> None:
    def use(value: list[int], name: str = "") -> None: ...

    registered = register(use)
    sent: dict[str, Any] = {"value": ["1"], "name": "2"}
    assert accept(registered, sent).arguments == {"value": [1], "name": "2"}
    assert sent == {"value": ["1"], "name": "2"}
    assert "text_reader" in registered.signature.__dict__
    other = register(lambda value: None, name="other", input_schema={"type": "object"})
    assert accept(other, {"value": "1"}).arguments == {"value": "1"}
    assert "text_reader" not in other.signature.__dict__


def test_a_site_and_a_tool_turn_it_off(configure: Any) -> None:
    def use(limit: int) -> None: ...

    strict, lenient = register(use, name="strict", json_text=False), register(use, name="lenient", json_text=True)
    usual = register(use)
    with pytest.raises(InvalidArguments):
        bind(strict, {"limit": "5"})
    assert bind(usual, {"limit": "5"}) == {"limit": 5}
    configure(JSON_TEXT_ARGUMENTS=False)
    with pytest.raises(InvalidArguments):
        bind(usual, {"limit": "5"})
    assert bind(lenient, {"limit": "5"}) == {"limit": 5}
    with pytest.raises(InvalidTool, match="json_text"):
        register(use, name="odd", json_text="no")


def nested(levels: int) -> str:
    """Return JSON text in JSON text. Each level doubles the backslashes."""
    text = "[]"
    for _ in range(levels):
        text = json.dumps([text])
    return text


@pytest.mark.fault("G10")
@pytest.mark.parametrize(
    "value",
    [
        ["5"] * 1_000_000,
        "[" + ",".join(['"5"'] * 500_000) + "]",
        "[" * 100_000,
        ["[" * 60] * 50_000,
        nested(18),
        ["[" + " " * 1_000_000] * 4,
    ],
    ids=["many", "many in one", "deep", "many that are none", "inside one another", "long"],
)
def test_the_work_is_bounded(value: Any) -> None:
    tree: dict[str, Any] = {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/tree"}, {"$ref": "#/$defs/twin"}]}}
    taking = take(
        {
            "$defs": {"tree": tree, "twin": tree},
            "properties": {
                "tree": {"$ref": "#/$defs/tree"},
                "numbers": {"type": "array", "items": {"type": "integer"}},
            },
        }
    )
    for name in ("tree", "numbers"):
        begun = time.process_time()
        with pytest.raises(InvalidArguments):
            bind(taking, {name: value, "tree" if name == "numbers" else "numbers": 1})
        assert time.process_time() - begun < 5
