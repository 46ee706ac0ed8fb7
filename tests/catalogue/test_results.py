"""Return values of tools become valid CallToolResults, or errors with a reason."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

import mcp_types
import pytest
from django.test import override_settings
from django.utils.translation import gettext_lazy
from pydantic import BaseModel, Field

from mcp_app.catalogue import results
from mcp_app.catalogue.content.blocks import Audio, Image
from mcp_app.catalogue.errors import InvalidResult, ToolError
from mcp_app.catalogue.registry import registered_tools, tool
from mcp_app.conf import settings
from mcp_app.lifecycle.redaction import RedactedError


class Point(BaseModel):
    x: int = Field(ge=0)
    note: str | None = None
    wire_name: int = Field(1, serialization_alias="wireName")


@dataclass
class Pair:
    left: Any
    right: Any


class Colour(StrEnum):
    RED = "red"


def convert(value: Any, annotation: Any = None) -> dict[str, Any]:
    def produce() -> Any: ...

    produce.__annotations__["return"] = annotation
    tool(name=f"produce-{len(registered_tools())}")(produce)
    produced = next(reversed(registered_tools().values()))
    result = results.to_result(produced, value)
    mcp_types.CallToolResult.model_validate(json.loads(json.dumps(result)))
    return result


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


@pytest.fixture
def small_results() -> Iterator[None]:
    with override_settings(MCP={"DATABASE": settings.DATABASE, "MAX_RESULT_BYTES": 1_000}):
        yield


def test_text_is_content_alone() -> None:
    assert convert("hello") == {"content": [{"type": "text", "text": "hello"}]}
    assert texts(convert(gettext_lazy("hello"))) == ["hello"]
    assert texts(convert(Colour.RED)) == ["red"]


def test_image_and_audio_are_sent_as_base64() -> None:
    assert convert(Image(b"\x89PNG", "image/png"))["content"] == [
        {"type": "image", "data": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"}
    ]
    assert convert(Audio(b"RIFF", annotations=mcp_types.Annotations(audience=["user"])))["content"] == [
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "annotations": {"audience": ["user"]}}
    ]


def test_every_content_block_is_sent_as_it_is() -> None:
    blocks = [
        mcp_types.TextContent(text="a", meta={"example.com/k": None}),
        mcp_types.ImageContent(data="aa==", mime_type="image/png"),
        mcp_types.AudioContent(data="aa==", mime_type="audio/wav"),
        mcp_types.ResourceLink(name="n", uri="test://link"),
        mcp_types.EmbeddedResource(
            resource=mcp_types.TextResourceContents(uri="test://r", mime_type="text/plain", text="t")
        ),
        mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents(uri="test://b", blob="aa==")),
    ]
    assert convert(blocks)["content"] == [
        {"type": "text", "text": "a", "_meta": {"example.com/k": None}},
        {"type": "image", "data": "aa==", "mimeType": "image/png"},
        {"type": "audio", "data": "aa==", "mimeType": "audio/wav"},
        {"type": "resource_link", "name": "n", "uri": "test://link"},
        {"type": "resource", "resource": {"uri": "test://r", "mimeType": "text/plain", "text": "t"}},
        {"type": "resource", "resource": {"uri": "test://b", "blob": "aa=="}},
    ]
    assert convert(blocks[0])["content"] == convert([blocks[0]])["content"]


@pytest.mark.parametrize(
    "block",
    [
        mcp_types.ImageContent(data="***", mime_type="image/png"),
        mcp_types.ImageContent(data="aa==", mime_type="nonsense"),
        mcp_types.AudioContent(data="aa", mime_type="audio/wav"),
        mcp_types.ResourceLink(name="n", uri="no uri"),
        mcp_types.ResourceLink(name="n", uri="x://a", icons=[mcp_types.Icon(src="http://example.com/i.png")]),
        mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri="no uri", text="t")),
        mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri="x://a", text="t", mime_type="t")),
        mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents(uri="x://a", blob="***")),
        mcp_types.TextContent(text="a", annotations=mcp_types.Annotations(last_modified="yesterday")),
        Image(b"x", mime_type="png"),
    ],
    ids=repr,
)
def test_a_block_that_says_what_is_not_so_is_refused(block: object) -> None:
    with pytest.raises(InvalidResult):
        convert([block])


def test_text_mixes_with_content_blocks() -> None:
    texts_alone = convert(["see", "end"], list[str | Image])
    assert (texts(texts_alone), texts_alone.keys()) == (["see", "end"], {"content"})
    assert convert([], list[Image] | None) == {"content": []}
    mixed = convert(["see", Image(b"x"), mcp_types.TextContent(text="end")])

    assert [block["type"] for block in mixed["content"]] == ["text", "image", "text"]
    assert "structuredContent" not in mixed


def test_value_among_content_blocks_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidResult, match=r"content blocks .*\bdict\b"):
        convert([Image(b"x"), {"a": 1}])


@pytest.mark.parametrize(
    ("value", "structured"),
    [
        (Point(x=1), {"x": 1, "note": None, "wireName": 1}),
        (Pair(Point(x=0), (1, 2)), {"left": {"x": 0, "note": None, "wireName": 1}, "right": [1, 2]}),
        ({"a": None, "b": {1: Decimal("1.5")}}, {"a": None, "b": {"1": "1.5"}}),
        (["a", "b"], ["a", "b"]),
        ([], []),
        (0, 0),
        (1.5, 1.5),
        (False, False),
    ],
)
def test_other_values_are_structured_and_repeated_as_text(value: Any, structured: Any) -> None:
    result = convert(value)

    assert result["structuredContent"] == structured
    assert [json.loads(text) for text in texts(result)] == [structured]


@pytest.mark.parametrize("annotation", [None, Any, str | None, list[Image] | None, mcp_types.CallToolResult | None])
def test_nothing_is_no_content_and_has_no_output_schema(annotation: Any) -> None:
    assert convert(None, annotation) == {"content": []}
    [produced] = registered_tools().values()
    assert "outputSchema" not in produced.wire_members


def test_a_tool_without_an_annotation_may_return_nothing() -> None:
    def do():  # type: ignore[no-untyped-def]
        return None

    tool(do)
    assert results.to_result(registered_tools()["do"], None) == {"content": []}


def test_structured_value_is_written_as_its_annotation_says() -> None:
    assert convert({"x": 3}, Point)["structuredContent"] == {"x": 3, "note": None, "wireName": 1}
    assert convert(None, Point | None)["structuredContent"] is None
    assert convert([{"x": 3}], list[Point])["structuredContent"][0]["wireName"] == 1
    assert convert("red", Colour)["structuredContent"] == "red"


def test_ready_made_result_passes_with_its_nulls() -> None:
    ready = mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text="as you wish")],
        structured_content=None,
        meta={"example.com/a": None},
    )
    assert convert(ready) == {
        "content": [{"type": "text", "text": "as you wish"}],
        "structuredContent": None,
        "_meta": {"example.com/a": None},
    }
    failed = mcp_types.CallToolResult(content=[], is_error=True)
    assert convert(failed, Point) == {"content": [], "isError": True}


@pytest.mark.parametrize(
    ("value", "annotation", "reason"),
    [
        ({"x": "many"}, Point, r"annotation: \$\.x: .*integer.* str\b"),
        ({"x": -1}, Point, r"annotation: \$\.x: .* 0.* int\b"),
        (Point.model_construct(x=-1), Point, r"schema: \$\.x .*at least 0"),
        ("text", Point, r"annotation: \$: .*\bPoint\b.* str\b"),
        (mcp_types.CallToolResult(content=[]), Point, "no structured content"),
        (mcp_types.CallToolResult(content=[], structured_content={"x": -1}), Point, r"schema: \$\.x .*at least 0"),
        (None, int, r"annotation: \$: .*integer.* NoneType\b"),
    ],
)
def test_result_that_contradicts_its_output_schema_is_refused(value: Any, annotation: Any, reason: str) -> None:
    with pytest.raises(InvalidResult, match=reason):
        convert(value, annotation)


def test_partial_result_may_lack_what_the_output_schema_asks_for() -> None:
    assert results.to_partial_result({"left": 1})["structuredContent"] == {"left": 1}
    assert results.to_partial_result("so far") == {"content": [{"type": "text", "text": "so far"}]}


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"bytes", "MIME type.* Image"),
        (Image("text"), r"Image .*bytes.* str\b"),  # type: ignore[arg-type]  # the mistake under test
        (float("nan"), r"^the float\b.* JSON"),
        ({"a": [float("inf")]}, r"\bfloat at \$\.a\[0\] .*JSON"),
        (object(), r"\bobject\b.* JSON"),
        ({"a": object()}, r"\bobject at \$\.a .*JSON"),
        (cyclic(), r"\blist\b.* JSON"),
        (deep(), r"\blist\b.* JSON"),
    ],
)
def test_value_without_a_json_form_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(InvalidResult, match=reason):
        convert(value)


def test_text_that_readers_refuse_is_replaced_wherever_it_stands() -> None:
    assert texts(convert("a\x00b\ud800c")) == ["a\ufffdb\ufffdc"]
    cleaned = convert({"k\x00": ["\udfff", "fine 😀"]})
    assert cleaned["structuredContent"] == {"k\ufffd": ["\ufffd", "fine 😀"]}
    assert texts(results.error_result("\x00")) == ["\ufffd"]


@pytest.mark.usefixtures("small_results")
def test_result_above_the_limit_becomes_an_error_that_says_so() -> None:
    assert "isError" not in convert("x" * 900)
    for large in ("x" * 1_001, "é" * 501, ["x" * 501], Image(b"x" * 1_000)):
        result = convert(large)
        assert result["isError"] is True
        assert re.search(r"limit\b.* 1000 bytes", texts(result)[0])
    assert re.search(r"limit\b.* 1000 bytes", texts(results.error_result("x" * 2_000))[0])


def test_tool_error_is_told_in_its_own_words_and_nothing_else_is() -> None:
    assert results.failure_result(ToolError("This tool intentionally returns an error for testing")) == {
        "content": [{"type": "text", "text": "This tool intentionally returns an error for testing"}],
        "isError": True,
    }
    # The message is the same for all of them, so it contains nothing of the exception.
    errors = (ValueError("password=hunter2"), ToolError(""), KeyError("/etc/passwd"))
    [[told]] = {tuple(texts(results.failure_result(error))) for error in errors}
    assert "internal error" in told
    assert "log" in told


def test_under_debug_the_type_and_text_of_other_errors_are_told(settings: Any) -> None:
    [usual] = texts(results.failure_result(KeyError("a")))
    settings.DEBUG = True
    assert texts(results.failure_result(ToolError("in my words"))) == ["in my words"]
    [told] = texts(results.failure_result(KeyError("a")))
    [redacted] = texts(results.failure_result(KeyError("hush"), RedactedError("KeyError: ***")))
    for text, shown in ((told, "KeyError: 'a'"), (redacted, "KeyError: ***")):
        assert text.startswith(usual)
        assert "DEBUG" in text
        assert text.endswith(f": {shown}")
    assert "hush" not in redacted

    class UnreadableError(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert re.search(r"UnreadableError: .*\btext\b", texts(results.failure_result(UnreadableError()))[0])
    assert len(texts(results.failure_result(ValueError("x" * 10_000)))[0]) < 2_200
