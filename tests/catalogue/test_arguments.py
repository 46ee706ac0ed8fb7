"""Arguments are validated strictly, with error messages that a model can act on."""

import re
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, field_validator

from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.catalogue.registry import RegisteredTool, registered_tools, tool


class Address(BaseModel):
    city: str
    lines: list[int] = []


class Even(BaseModel):
    value: int

    @field_validator("value")
    @classmethod
    def check(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def register(function: Any, **options: Any) -> RegisteredTool:
    tool(**options)(function)
    return next(reversed(registered_tools().values()))


def problems(registered: RegisteredTool, arguments: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidArguments) as caught:
        bind(registered, arguments)
    first, *lines = str(caught.value).split("\n")
    assert "arguments" in first
    return [line.removeprefix("- ") for line in lines]


def assert_problems(found: list[str], *expected: tuple[str, ...]) -> None:
    """Check that there is one line for each problem.

    `expected`: for each problem, its path and the facts in its message.
    """
    assert [line.partition(": ")[0] for line in found] == [path for path, *_ in expected]
    for line, (path, *facts) in zip(found, expected, strict=True):
        message = line.removeprefix(path)
        assert [fact for fact in facts if fact not in message] == [], line


def deliver(
    count: int,
    address: Address,
    speed: float = 1.0,
    urgent: bool = False,
    target: int | Address | None = None,
    name: Annotated[str, Field(max_length=5)] = "",
) -> None: ...


def test_every_problem_has_a_line_with_its_path() -> None:
    found = problems(
        register(deliver),
        {"count": "five", "address": {"lines": [1, "x"]}, "speed": True, "urgent": 1, "name": "too long", "extra": 1},
    )
    assert_problems(
        found,
        ("count", "integer", '"five"'),
        ("address.city", "required"),
        ("address.lines[1]", "integer", '"x"'),
        ("speed", "number", "true"),
        ("urgent", "boolean", "1"),
        ("name", "at most 5 characters", '"too long"'),
        ("extra", "no such"),
    )


def test_union_problems_are_told_without_names_of_our_types() -> None:
    found = problems(register(deliver), {"count": 1, "address": {"city": ""}, "target": {"city": 1}})

    assert_problems(found, ("target", "integer", "an object"), ("target.city", "string", "1"))
    assert "Address" not in str(found)


def test_words_of_a_tools_own_validator_are_told() -> None:
    def halve(even: Even) -> None: ...

    assert_problems(problems(register(halve), {"even": {"value": 3}}), ("even.value", "must be even", "3"))


def test_whole_numbers_are_integers_however_they_are_written() -> None:
    bound = bind(register(deliver), {"count": 5.0, "address": {"city": "x", "lines": [1.0]}, "speed": 2})

    assert bound["count"] == 5
    assert type(bound["count"]) is int
    assert bound["address"].lines == [1]
    assert type(bound["speed"]) is float


def test_fractions_and_infinities_are_no_integers() -> None:
    registered = register(deliver)

    assert_problems(problems(registered, {"count": 5.5, "address": {"city": ""}}), ("count", "integer", "5.5"))
    assert "range" in problems(registered, {"count": float("inf"), "address": {"city": ""}})[0]


def test_text_that_is_not_unicode_is_a_problem_of_the_caller() -> None:
    assert "Unicode" in problems(register(deliver), {"count": 1, "address": {"city": "\ud800"}})[0]


def test_problems_are_bounded_in_number_and_length() -> None:
    registered = register(deliver)
    many = problems(registered, {"count": 1, "address": {"city": "", "lines": ["x"] * 5_000}})
    long = problems(registered, {"count": "9" * 100_000, "address": {"city": ""}, "k" * 100_000: 1})

    assert len(many) == 11
    assert "further" in many[-1]
    assert all(len(line) <= 300 for line in long)


def test_explicit_schema_problems_quote_the_schema_and_not_the_value() -> None:
    def take(arguments: dict[str, Any]) -> None: ...

    registered = register(
        take,
        input_schema={
            "type": "object",
            "properties": {
                "a": {"enum": ["x", None]},
                "b": {"minimum": 3, "multipleOf": 2},
                "c": {"const": 1},
                "d": {"oneOf": [{"type": "integer"}, {"minimum": 5}]},
                "e": {"not": {"type": "string"}},
                "f": False,
                "g": {"maxLength": 2},
            },
        },
    )
    secret = "s3cret" * 10
    found = problems(registered, {"a": secret, "b": 1, "c": 2, "d": 7, "e": secret, "f": secret, "g": secret})
    assert_problems(
        found,
        ("a", '["x", null]'),
        ("b", "at least 3"),
        ("b", "multiple of 2"),
        ("c", "be 1"),
        ("d", "exactly one"),
        ("e", 'not {"type": "string"}'),
        ("f", "not allowed"),
        ("g", "at most 2 characters"),
    )
    assert secret not in str(found)


class Dated(BaseModel):
    day: date


@pytest.mark.fault("G10")
@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ({"items": [{}] * 5_000}, r"items\[0\]: "),
        ({"items": [{} for _ in range(30_000)]}, r"items\[0\]: "),
        ({"items": [{"city": 1}] * 2_000}, r"items\[0\]\.city: "),
        ({"items": [], **{f"a{number}": 0 for number in range(2_000)}}, "arguments: "),
        ({"items": [{"city": "x", "lines": [0] * 400_000}]}, ".*too large"),
    ],
    ids=["incomplete", "very many", "of a wrong type", "unknown", "more than is checked"],
)
def test_what_is_wrong_with_very_many_is_not_told_of_each(arguments: dict[str, Any], first: str) -> None:
    def visit(items: list[Address]) -> None:
        """Visit."""

    found = problems(register(visit), arguments)
    assert re.match(first, found[0])
    assert len(found) <= 11


@pytest.mark.fault("G10")
def test_what_a_schema_cannot_tell_of_very_many_is_told_of_all_at_once() -> None:
    def visit(days: list[Dated]) -> None:
        """Visit."""

    [found] = problems(register(visit), {"days": [{"day": "soon"}] * 2_000})
    assert "schema" in found
    assert "days" not in found


def test_an_array_of_many_that_fit_is_bound() -> None:
    def visit(numbers: list[int], text: str) -> None:
        """Visit."""

    bound = bind(register(visit), {"numbers": list(range(50_000)), "text": "," * 1_000_000})
    assert len(bound["numbers"]) == 50_000


def test_very_many_whole_numbers_that_are_written_with_a_point_are_integers() -> None:
    def visit(numbers: list[int]) -> None:
        """Visit."""

    assert bind(register(visit), {"numbers": [5.0] * 2_000})["numbers"] == [5] * 2_000
