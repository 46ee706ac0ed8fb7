"""Makes resource contents and prompt messages from the return values of authors' functions.

`None`, an empty list of messages, unknown roles and blocks, and malformed Base64 are refused. In a
prompt, so is an embedded resource without a MIME type.
Source: 2026-07-28 server/resources "Resource Contents", server/prompts "PromptMessage".
"""

from typing import Any, Final

import mcp_types
from django.utils.functional import Promise

from mcp_app.catalogue.content.blocks import (
    Audio,
    Image,
    as_block,
    check_contents,
    check_mime_type,
    dumped,
    encode,
    is_block,
    jsonable,
    to_base64,
)
from mcp_app.catalogue.errors import InvalidResult

_CONTENTS: Final = (mcp_types.TextResourceContents, mcp_types.BlobResourceContents)


def to_contents(uri: str, mime_type: str | None, value: object) -> list[dict[str, Any]]:
    """Return the `contents` of a read of `uri`. `mime_type` is the declared type, or `None`."""
    if isinstance(value, _CONTENTS):
        return [_ready_made(value)]
    if isinstance(value, list | tuple) and value and all(isinstance(item, _CONTENTS) for item in value):
        return [_ready_made(item) for item in value]
    if value is None:
        raise InvalidResult("it returned None; raise ResourceNotFound if the resource does not exist")
    default, member = _content(value)
    return [{"uri": uri, "mimeType": mime_type or default, **member}]


def to_messages(value: object) -> list[dict[str, Any]]:
    """Return the `messages` of a prompt."""
    messages = list(value) if isinstance(value, list | tuple) else [value]
    if not messages:
        raise InvalidResult("a prompt must have at least one message")
    return [_message(message) for message in messages]


def user(content: object) -> mcp_types.PromptMessage:
    """Return a message of the user for a prompt.

    `content` is text, an `Image`, an `Audio` or a content block of `mcp_types`. Raises
    `InvalidResult` for anything else, and for a malformed block. Source: 2026-07-28 server/prompts
    "PromptMessage".
    """
    return _said_by("user", content)


def assistant(content: object) -> mcp_types.PromptMessage:
    """Return a message of the assistant for a prompt. `content` and errors are as for `user`."""
    return _said_by("assistant", content)


def _said_by(role: mcp_types.Role, content: object) -> mcp_types.PromptMessage:
    return mcp_types.PromptMessage.model_validate({"role": role, "content": as_block(content)})


def _content(value: object) -> tuple[str, dict[str, str]]:
    """Return the default MIME type, and the member that holds the content."""
    if isinstance(value, str | Promise):
        return "text/plain", {"text": str(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return "application/octet-stream", {"blob": to_base64(bytes(value))}
    if isinstance(value, Image | Audio):
        return value.mime_type, {"blob": to_base64(value.data)}
    return "application/json", {"text": encode(jsonable(value))}


def _ready_made(value: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> dict[str, Any]:
    check_contents(value)
    return dumped(value)


def _message(value: object) -> dict[str, Any]:
    if not isinstance(value, mcp_types.PromptMessage):
        if not (isinstance(value, str | Promise) or is_block(value)):
            raise InvalidResult(
                f"a value of type {type(value).__name__} is not a message; return text, content blocks or messages"
            )
        value = user(value)
    if isinstance(value.content, mcp_types.EmbeddedResource):
        check_mime_type(value.content.resource.mime_type)
    return {"role": value.role, "content": as_block(value.content)}
