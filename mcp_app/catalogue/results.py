"""What a tool returned, as a CallToolResult: JSON-ready, checked against its output schema, within the size limit.

Text becomes content; content blocks, alone or in a list with text, stay what they are; every other value is structured
and repeated as JSON text. Refuses bytes without a type, numbers that JSON has not, and results that contradict their
schema. Too large a result becomes an error that says so: it is never cut.
Source: 2026-07-28 server/tools "Tool Result", "Security Considerations".
"""

from typing import Any, Final

import mcp_types
from django.utils.functional import Promise
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from mcp_app.catalogue.blocks import as_block, is_block, text_block
from mcp_app.catalogue.errors import InvalidResult, TooLarge, ToolError
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.catalogue.sendable import encode, jsonable, sendable
from mcp_app.catalogue.violations import sentence
from mcp_app.protocol.results import tool_error

FAILED: Final = "The tool failed because of an internal error. The server's log has the details."


def to_result(tool: RegisteredTool, value: object) -> dict[str, Any]:
    """The CallToolResult object for what `tool` returned, without `resultType`.

    Raises `InvalidResult`: the server's failure, with a message for its log.
    """
    if tool.signature.output_schema is None:
        return _sendable(_unchecked(value, blocks=tool.signature.returns_blocks))
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


def _unchecked(value: object, *, blocks: bool = False) -> dict[str, Any]:
    if isinstance(value, mcp_types.CallToolResult):
        return _ready_made(value)
    if (content := _content(value, blocks=blocks)) is not None:
        return {"content": content}
    return _structured(_jsonable(value))


def _structured(value: Any) -> dict[str, Any]:
    return {"content": [text_block(encode(value))], "structuredContent": value}


def _content(value: object, *, blocks: bool) -> list[dict[str, Any]] | None:
    """`value` as content blocks; None where it is structured. `blocks`: a list is one of them, whatever is in it."""
    if isinstance(value, str | Promise) or is_block(value):
        return [as_block(value)]
    if isinstance(value, list | tuple) and (blocks or any(map(is_block, value))):
        return [as_block(item) for item in value]
    return None


def _ready_made(value: mcp_types.CallToolResult) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [as_block(block) for block in value.content]}
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
    return jsonable(value)


def _check_output(tool: RegisteredTool, result: dict[str, Any]) -> None:
    if "structuredContent" not in result:
        raise InvalidResult("it has no structured content, which the output schema asks for")
    for error in tool.signature.output_validator.iter_errors(result["structuredContent"]):
        raise InvalidResult(f"it contradicts the output schema: {error.json_path} {sentence(error)}")


def _sendable(result: dict[str, Any]) -> dict[str, Any]:
    try:
        return sendable(result)
    except TooLarge as error:
        return tool_error(str(error))
