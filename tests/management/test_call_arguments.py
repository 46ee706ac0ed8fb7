"""Arguments of a command line are converted to the arguments object by the tool's schema."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_app.management.calling.arguments import ArgumentError, read

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "size": {"enum": ["1", "2"]},
        "count": {"type": "integer"},
        "either": {"type": ["integer", "string"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"$ref": "#/$defs/Place"},
        "text": {"$ref": "#/$defs/Text"},
    },
    "$defs": {"Place": {"type": "object"}, "Text": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("name=12", "12"),
        ("name=", ""),
        ('name="12"', '"12"'),
        ("name=a=b", "a=b"),
        ("name=null", "null"),
        ("maybe=true", "true"),
        ("size=1", "1"),
        ("text=[1]", "[1]"),
        ("count=12", 12),
        ("count=-1", -1),
        ("either=12", 12),
        ("either=twelve", "twelve"),
        ("either=[1]", "[1]"),
        ('tags=["a", "b"]', ["a", "b"]),
        ('place={"x": 1.5}', {"x": 1.5}),
        ("unknown=1", 1),
        ("unknown=one", "one"),
    ],
)
def test_a_text_is_taken_as_it_is_and_anything_else_as_json(given: str, value: Any) -> None:
    assert read([given], None, SCHEMA) == {given.split("=")[0]: value}


def test_members_of_the_whole_object_are_replaced_by_name() -> None:
    assert read(["count=2"], '{"name": "a", "count": 1}', SCHEMA) == {"name": "a", "count": 2}


def test_a_file_and_standard_input_stand_for_what_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tags.json").write_text('["ä"]')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("líne\n".encode())))
    found = read([f"tags=@{tmp_path / 'tags.json'}", "name=-"], None, SCHEMA)
    assert found == {"tags": ["ä"], "name": "líne\n"}


@pytest.mark.parametrize(
    ("given", "whole", "told"),
    [
        (["count"], None, "--arg count: .*NAME=VALUE"),
        (["count=x"], None, r"--arg count: 'x' .*JSON \(integer\)"),
        (["count=NaN"], None, "--arg count: 'NaN' .*not JSON"),
        (["name=a", "name=b"], None, "--arg name .*twice"),
        (["name=@/nowhere"], None, "/nowhere .*: No such file"),
        ([], "[1]", "--args: .*JSON object"),
        ([], "{", "--args: .*not JSON"),
        ([], "[" * 100_000, "--args: .*nested"),
    ],
)
def test_what_is_no_argument_is_told_with_what_to_write(given: list[str], whole: str | None, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        read(given, whole, SCHEMA)
