"""Hostile or unusable schemas are refused at registration. Validation is bounded (faults G10)."""

import json
import re
from typing import Any

import pytest

from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.errors import InvalidArguments, InvalidTool
from mcp_app.catalogue.registry import RegisteredTool, registered_tools, tool
from mcp_app.catalogue.schema.json_schema import MAX_SCHEMA_DEPTH, MAX_SUBSCHEMAS

CONFORMANCE = json.loads(
    """
{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
 "$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
 "properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
 "allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
 "if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
 "then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}
"""
)


def register(schema: Any) -> RegisteredTool:
    @tool(name=f"tool-{len(registered_tools())}", input_schema=schema)
    def take(arguments: dict[str, Any]) -> str: ...

    return next(reversed(registered_tools().values()))


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}}


def test_conformance_schema_is_kept_verbatim_and_checked_in_full() -> None:
    taking = register(json.loads(json.dumps(CONFORMANCE)))

    assert taking.signature.input_schema == CONFORMANCE
    assert bind(taking, {"contactMethod": "phone", "phone": "1"})
    for wrong, reason in [
        ({"contactMethod": "phone", "email": "a@b"}, 'must have "phone"'),
        ({"phone": "1"}, 'must have "email"'),
        ({}, r'must have "phone" \| must have "email"'),
        ({"email": "a", "address": {"city": 1}}, r"address\.city: .*string"),
        ({"email": "a", "fax": 1}, 'must not have "fax"'),
    ]:
        with pytest.raises(InvalidArguments, match=reason):
            bind(taking, wrong)


def test_references_inside_the_document_are_followed() -> None:
    taking = register(
        {
            "type": "object",
            "$defs": {"a/b": {"type": "integer"}, "named": {"$anchor": "here", "type": "boolean"}},
            "properties": {"one": {"$ref": "#/$defs/a~1b"}, "two": {"$ref": "#here"}, "me": {"$ref": "#"}},
        }
    )
    assert bind(taking, {"one": 1, "two": True, "me": {"me": {"one": 2}}})
    with pytest.raises(InvalidArguments, match=r"me\.me\.one: .*integer"):
        bind(taking, {"me": {"me": {"one": "two"}}})


def test_draft_07_is_checked_as_draft_07() -> None:
    taking = register(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"pair": {"items": [{"type": "integer"}, {"type": "string"}]}},
            "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
        }
    )
    assert bind(taking, {"pair": [1, "x"]})
    for wrong in ({"pair": ["x", 1]}, {"a": 1}, {"c": 1}):
        with pytest.raises(InvalidArguments):
            bind(taking, wrong)


@pytest.mark.fault("G10")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            {"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}},
            r"'https://example.com/a' .*\$defs",
        ),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, r"'file:///etc/passwd' .*\$defs"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, r"'#/\$defs/none' .*no schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#nowhere"}}}, "'#nowhere' .*no schema"),
        ({"type": "object", "x": {"a": {}}, "$ref": "#/x/a"}, "'#/x/a' .*no schema"),
        ({"type": "object", "$ref": "#"}, r" #: .*\$ref .*itself"),
        (
            {
                "type": "object",
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
            },
            r" #/\$defs/a: .*\$ref .*itself",
        ),
        (doubling(20), "references .*too deeply"),
        (doubling(200), "references .*too deeply"),
        ({"type": "object", "$dynamicRef": "#a"}, r" #: \$dynamicRef .*\$ref"),
        ({"type": "object", "properties": {"a": {"$id": "https://example.com/"}}}, r" #/properties/a: .*root .*\$id"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}, "draft-04.*2020-12.*draft-07"),
        ({"$schema": 7, "type": "object"}, r"\$schema 7 .*2020-12.*draft-07"),
        ({"type": "string"}, '"type": "object"'),
        ({"properties": {}}, '"type": "object"'),
        ({"type": "object", "properties": []}, "#/properties"),
        ({"type": "objects"}, "#/type"),
        ([], "JSON object"),
        ({"type": "object", "maximum": float("nan")}, "finite JSON"),
        ({"type": "object", "description": "\ud800"}, "valid Unicode"),
        ({"type": "object", "default": object()}, "plain"),
        (nested(40), f"{MAX_SCHEMA_DEPTH} levels"),
        (nested(20_000), "finite JSON|levels"),
        ({"type": "object", "description": "x" * 300_000}, "bytes"),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(MAX_SUBSCHEMAS)}}, f"more than {MAX_SUBSCHEMAS}"),
        ({"type": "object", "properties": {"a": {"pattern": "(a)\\1"}}}, "linear time"),
        ({"type": "object", "properties": {"a": {"pattern": "(?!a)"}}}, "linear time"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "linear time"),
        ({"type": "object", "properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "linear time"),
        ({"type": "object", "patternProperties": {"(a)\\1": {}}}, "linear time"),
        ({"type": "object", "properties": {"a": {"pattern": "a" * 1_001}}}, "1000 characters"),
        (
            {"type": "object", "patternProperties": {"a": {}}, "unevaluatedProperties": False},
            "patternProperties .*unevaluatedProperties",
        ),
    ],
)
def test_unusable_schema_is_refused_with_the_reason(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidTool, match=reason):
        register(schema)


@pytest.mark.fault("G10")
def test_backtracking_pattern_is_matched_in_linear_time() -> None:
    taking = register({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})

    assert bind(taking, {"a": "a" * 100_000})
    with pytest.raises(InvalidArguments, match=r'a: .*pattern "\^\(a\+\)\+\$"'):
        bind(taking, {"a": "a" * 100_000 + "!"})


@pytest.mark.fault("G10")
def test_recursion_that_doubles_with_every_level_of_the_value_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_app.catalogue.arguments.MAX_EVALUATIONS", 20_000)
    into = {"properties": {"a": {"$ref": "#/$defs/node"}}}
    taking = register(
        {
            "type": "object",
            "$defs": {"node": {"type": "object", "allOf": [into, {"description": "again", **into}]}},
            "properties": {"a": {"$ref": "#/$defs/node"}},
        }
    )
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"a": value}
    with pytest.raises(InvalidArguments, match="too large"):
        bind(taking, value)


@pytest.mark.fault("G10")
def test_large_array_is_cut_off_and_the_next_call_is_served() -> None:
    taking = register({"type": "object", "properties": {"a": {"items": {"type": "integer"}}}})

    with pytest.raises(InvalidArguments, match="too large"):
        bind(taking, {"a": [0] * 300_000})
    assert bind(taking, {"a": [0] * 1_000})


def test_pattern_properties_and_additional_properties_agree() -> None:
    taking = register(
        {
            "type": "object",
            "properties": {"known": {}},
            "patternProperties": {"^x-": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        }
    )
    assert bind(taking, {"known": None, "x-a": 1, "other": "text"})
    with pytest.raises(InvalidArguments) as caught:
        bind(taking, {"x-a": "one", "other": 2})
    assert re.search("x-a: .*integer", str(caught.value))
    assert re.search("other: .*string", str(caught.value))


def test_unique_items_are_equal_as_json_is() -> None:
    taking = register({"type": "object", "properties": {"a": {"uniqueItems": True}}})

    assert bind(taking, {"a": [1, True, "1", [1], {"a": 1}, {"a": True}, None]})
    for twice in ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[None], [None]]):
        with pytest.raises(InvalidArguments, match=r"a: .*duplicate"):
            bind(taking, {"a": twice})
