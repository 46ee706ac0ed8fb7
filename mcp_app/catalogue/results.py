"""What a tool returned, as a CallToolResult: JSON-ready, checked against its output schema, within the size limit.

Text becomes content; content blocks, alone or in a list with text, stay what they are; every other value is structured
and repeated as JSON text. Refuses bytes without a type, numbers that JSON has not, and results that contradict their
schema. Too large a result becomes an error that says so: it is never cut.
Source: 2026-07-28 server/tools "Tool Result", "Security Considerations".
"""

import json
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, get_args

import mcp_types
from django.utils.functional import Promise
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mcp_app.catalogue.blocks import Audio, Image
from mcp_app.catalogue.errors import InvalidResult, ToolError
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.catalogue.violations import sentence
from mcp_app.conf import settings
from mcp_app.protocol.results import tool_error

FAILED: Final = "The tool failed because of an internal error. The server's log has the details."

_BLOCKS: Final = get_args(mcp_types.ContentBlock)
_UNSENDABLE: Final = re.compile("[\x00\ud800-\udfff]")


def to_result(tool: RegisteredTool, value: object) -> dict[str, Any]:
    """The CallToolResult object for what `tool` returned, without `resultType`.

    Raises `InvalidResult`: the server's failure, with a message for its log.
    """
    if tool.signature.output_schema is None:
        return _sendable(_unchecked(value))
    result = _ready_made(value) if isinstance(value, mcp_types.CallToolResult) else _as_annotated(tool, value)
    if not result.get("isError"):
        _check_output(tool, result)
    return _sendable(result)


def to_partial_result(value: object) -> dict[str, Any]:
    """The same for what a stopped tool handed back, which may lack what its output schema asks for."""
    return _sendable(_unchecked(value))


def error_result(message: str) -> dict[str, Any]:
    """An `isError` result that says `message`."""
    return _sendable(tool_error(message))


def failure_result(error: BaseException) -> dict[str, Any]:
    """The `isError` result for what a tool raised: a `ToolError` in its own words, anything else without details."""
    own_words = str(error) if isinstance(error, ToolError) else ""
    return error_result(own_words or FAILED)


def _unchecked(value: object) -> dict[str, Any]:
    if isinstance(value, mcp_types.CallToolResult):
        return _ready_made(value)
    if (blocks := _content(value)) is not None:
        return {"content": blocks}
    return _structured(_jsonable(value))


def _structured(value: Any) -> dict[str, Any]:
    return {"content": [_text(_encode(value))], "structuredContent": value}


def _content(value: object) -> list[dict[str, Any]] | None:
    """`value` as content blocks; None where it is structured."""
    if isinstance(value, str | Promise) or _is_block(value):
        return [_block(value)]
    if isinstance(value, list | tuple) and any(map(_is_block, value)):
        return [_block(item) for item in value]
    return None


def _is_block(value: object) -> bool:
    return isinstance(value, (*_BLOCKS, Image, Audio))


def _block(value: object) -> dict[str, Any]:
    if isinstance(value, str | Promise):
        return _text(str(value.value if isinstance(value, Enum) else value))
    if isinstance(value, Image | Audio):
        if not isinstance(value.data, bytes):
            raise InvalidResult(f"the data of an {type(value).__name__} is bytes, not {type(value.data).__name__}")
        value = value.block()
    if not isinstance(value, _BLOCKS):
        raise InvalidResult(f"a {type(value).__name__} stands among content blocks; only text may")
    return dict(value.model_dump(mode="json", by_alias=True, exclude_none=True))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _ready_made(value: mcp_types.CallToolResult) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [_block(block) for block in value.content]}
    # Null is a value: what was set is sent, whatever it is.
    if "structured_content" in value.model_fields_set:
        result["structuredContent"] = _jsonable(value.structured_content)
    if value.is_error:
        result["isError"] = True
    if value.meta is not None:
        result["_meta"] = _jsonable(value.meta)
    return result


def _as_annotated(tool: RegisteredTool, value: object) -> dict[str, Any]:
    adapter = tool.signature.returned
    assert adapter is not None
    try:
        accepted = adapter.validate_python(value)
        return _structured(adapter.dump_python(accepted, mode="json", by_alias=True, warnings="error"))
    except ValidationError as error:
        raise InvalidResult(f"it is not what its annotation says: {error}") from error
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidResult(f"it cannot be written as JSON: {error}") from error


def _jsonable(value: object) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raise InvalidResult("bytes have no type; return Image, Audio or an embedded resource")
    try:
        return to_jsonable_python(value, by_alias=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidResult(f"a {type(value).__name__} cannot be written as JSON: {error}") from error


def _check_output(tool: RegisteredTool, result: dict[str, Any]) -> None:
    if "structuredContent" not in result:
        raise InvalidResult("it has no structured content, which the output schema asks for")
    for error in tool.signature.output_validator.iter_errors(result["structuredContent"]):
        raise InvalidResult(f"it contradicts the output schema: {error.json_path} {sentence(error)}")


def _encode(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidResult(f"it cannot be written as JSON: {error}") from error


def _sendable(result: dict[str, Any]) -> dict[str, Any]:
    """`result` with text that every reader takes, or the error that it is too large."""
    text = _encode(result)
    if "\\u0000" in text or _UNSENDABLE.search(text):
        result = _clean(result)
        text = _encode(result)
    if (size := len(text.encode())) > settings.MAX_RESULT_BYTES:
        return tool_error(
            f"The result is larger than this server sends: {size} bytes, the limit is "
            f"{settings.MAX_RESULT_BYTES} bytes. Ask for less."
        )
    return result


def _clean(value: Any) -> Any:
    """`value` with U+FFFD for lone surrogates and NUL, which databases and UTF-8 refuse."""
    if isinstance(value, str):
        return _UNSENDABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(member) for key, member in value.items()}
    if isinstance(value, Sequence):
        return [_clean(item) for item in value]
    return value
