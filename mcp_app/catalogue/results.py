"""Makes a CallToolResult from a tool's return value, and from the exceptions of its code.

1. Text becomes a text block. Content blocks are kept, alone or in a list with text.
2. `None` becomes an empty list of content, unless the output schema allows null.
3. Any other value becomes `structuredContent`, and is repeated as a text block of JSON.
4. The result must fit the tool's output schema. Bytes without a MIME type, and numbers that JSON
   does not have, raise `InvalidResult`.
5. A result above `MAX_RESULT_BYTES` is replaced by an `isError` result. It is never truncated.

Source: 2026-07-28 server/tools "Tool Result", "Security Considerations".
"""

from typing import Any, Final

import mcp_types
from django.conf import settings as django_settings
from django.utils.functional import Promise
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from mcp_app.catalogue.content.blocks import NO_JSON, as_block, dotted, encode, is_block, jsonable, sendable, text_block
from mcp_app.catalogue.errors import InvalidResult, TooLarge, ToolError
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.catalogue.schema.violations import sentence
from mcp_app.lifecycle.redaction import RedactedError
from mcp_app.protocol.results import tool_error

CONTRADICTS: Final = "it does not match the type that the tool declares"
MAX_PROBLEMS: Final = 5
MAX_ERROR_CHARS: Final = 2_000
"""Characters of an exception's text that are stored and shown."""


def to_result(tool: RegisteredTool, value: object) -> dict[str, Any]:
    """Return the CallToolResult object for the return value of `tool`, without `resultType`.

    Raises `InvalidResult` for a value that cannot be sent. Its message is for the server's log.
    """
    if tool.signature.output_schema is None:
        return _sendable(_unchecked(value, blocks=tool.signature.returns_blocks))
    result = _ready_made(value) if isinstance(value, mcp_types.CallToolResult) else _as_annotated(tool, value)
    if not result.get("isError"):
        _check_output(tool, result)
    return _sendable(result)


def to_partial_result(value: object) -> dict[str, Any]:
    """Return the result for the partial value of a stopped tool.

    The output schema is not checked.
    """
    return _sendable(_unchecked(value))


def error_result(message: str) -> dict[str, Any]:
    """Return an `isError` result with this message."""
    return _sendable(tool_error(message))


def failure_result(error: BaseException, shown: BaseException | None = None) -> dict[str, Any]:
    """Return the `isError` result for an exception of a tool.

    Its text is that of a `ToolError`, otherwise `failure_text`.
    `shown`: the exception after the site's redaction.
    """
    own_words = str(error) if isinstance(error, ToolError) else ""
    return error_result(own_words or failure_text("tool", error, shown or error))


def failure_text(thing: str, error: BaseException, shown: BaseException) -> str:
    """Return the message that the code of a `thing` ("tool", "request") failed.

    Under `DEBUG` it includes the exception's type and text. `shown`: the exception after the site's
    redaction.
    """
    text = f"The {thing} failed because of an internal error. The server's log has the details."
    if isinstance(error, InvalidResult):
        text = (
            f"The {thing} ran, but its result cannot be sent: {error.told}. Calling again with the same arguments is "
            "not likely to help, and what it did may have taken effect. The server's log has the details."
        )
    if not django_settings.DEBUG:
        return text
    try:
        details = str(shown)
    except Exception:  # raised by an author's `__str__`
        details = "its text cannot be shown"
    if not isinstance(shown, RedactedError):
        details = f"{type(shown).__name__}: {details}"
    return f"{text} Shown because DEBUG is on: {details[:MAX_ERROR_CHARS]}"


def _unchecked(value: object, *, blocks: bool = False) -> dict[str, Any]:
    if isinstance(value, mcp_types.CallToolResult):
        return _ready_made(value)
    if (content := _content(value, blocks=blocks)) is not None:
        return {"content": content}
    return _structured(_jsonable(value))


def _structured(value: Any) -> dict[str, Any]:
    return {"content": [text_block(encode(value))], "structuredContent": value}


def _content(value: object, *, blocks: bool) -> list[dict[str, Any]] | None:
    """Return `value` as content blocks, or `None` if it is structured.

    `blocks`: whether every list is a list of content blocks, even if none of its items is one.
    """
    if value is None:
        return []
    if isinstance(value, str | Promise) or is_block(value):
        return [as_block(value)]
    if isinstance(value, list | tuple) and (blocks or any(map(is_block, value))):
        return [as_block(item) for item in value]
    return None


def _ready_made(value: mcp_types.CallToolResult) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [as_block(block) for block in value.content]}
    # Null is a valid value, so a field that was set is sent even if it is `None`.
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
        raise InvalidResult(f"it does not match its annotation: {_problems(error)}", CONTRADICTS) from error
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidResult(f"it cannot be written as JSON: {error}", NO_JSON) from error


def _problems(error: ValidationError) -> str:
    """Return the problems and their places, without the values."""
    found = error.errors(include_url=False, include_context=False)
    lines = [f"{dotted('$', each['loc'])}: {each['msg']}, not {type(each['input']).__name__}" for each in found]
    return "; ".join(lines[:MAX_PROBLEMS])


def _jsonable(value: object) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raise InvalidResult("bytes have no MIME type; return Image, Audio or an embedded resource", NO_JSON)
    return jsonable(value)


def _check_output(tool: RegisteredTool, result: dict[str, Any]) -> None:
    if "structuredContent" not in result:
        raise InvalidResult("it has no structured content, which the output schema requires", CONTRADICTS)
    for error in tool.signature.output_validator.iter_errors(result["structuredContent"]):
        raise InvalidResult(f"it does not match the output schema: {error.json_path} {sentence(error)}", CONTRADICTS)


def _sendable(result: dict[str, Any]) -> dict[str, Any]:
    try:
        return sendable(result)
    except TooLarge as error:
        return tool_error(str(error))
