"""Content blocks, `Image` and `Audio`, and the checks that content passes before it is sent.

Bytes without a MIME type are refused, as are malformed Base64, URIs, MIME types and times.
`sendable` is the last check of every result: its characters and its size.
Source: 2026-07-28 server/tools "Tool Result", server/prompts "PromptMessage".
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_args

import mcp_types
from django.utils.functional import Promise
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mcp_app.catalogue.errors import InvalidResult, TooLarge
from mcp_app.conf import settings
from mcp_app.protocol.formats import is_base64, is_icon_source, is_mime_type, is_time, is_uri

NO_JSON: Final = "it contains a value that JSON cannot represent (such as NaN, infinity or bytes)"
MAX_STEPS: Final = 20
"""Levels into a value that are searched for the part that cannot be written."""

_UNSENDABLE: Final = re.compile("[\x00\ud800-\udfff]")


def jsonable(value: object) -> Any:
    """Return `value` as plain JSON. Raises `InvalidResult`."""
    try:
        return to_jsonable_python(value, by_alias=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise _not_json(value, error, lambda part: to_jsonable_python(part, by_alias=True)) from error


def encode(value: Any) -> str:
    """Return plain JSON as text. Raises `InvalidResult`."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise _not_json(value, error, lambda part: json.dumps(part, allow_nan=False)) from error


def dotted(root: str, steps: Iterable[object]) -> str:
    """Return the place of a value, such as `$.rows[1].price`."""
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _not_json(value: object, error: Exception, write: Callable[[Any], object]) -> InvalidResult:
    """Find the part of `value` that cannot be written, and return the exception for it.

    `write` raises for such a part. `error` is what it raised for the whole value.
    """
    steps: list[object] = []
    parents: list[object] = []
    while len(steps) < MAX_STEPS:
        found = next((item for item in _members(value) if not _can(write, item[1])), None)
        if found is None or any(found[1] is parent for parent in (*parents, value)):
            break
        parents.append(value)
        steps.append(found[0])
        value = found[1]
    place = f" at {dotted('$', steps)}" if 0 < len(steps) < MAX_STEPS else ""
    return InvalidResult(f"the {type(value).__name__}{place} cannot be written as JSON: {error}", NO_JSON)


def _members(value: object) -> Iterable[tuple[object, object]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()


def _can(write: Callable[[Any], object], value: object) -> bool:
    try:
        write(value)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def sendable(result: dict[str, Any]) -> dict[str, Any]:
    """Return `result` with text that every reader can store and decode.

    Raises `InvalidResult`, and `TooLarge` with a message for the client.
    """
    text = encode(result)
    if "\\u0000" in text or _UNSENDABLE.search(text):
        result = _clean(result)
        text = encode(result)
    if (size := len(text.encode())) > settings.MAX_RESULT_BYTES:
        raise TooLarge(
            f"The result is larger than this server can send: {size} bytes, the limit is "
            f"{settings.MAX_RESULT_BYTES} bytes. Ask for less."
        )
    return result


def _clean(value: Any) -> Any:
    """Replace lone surrogates and NUL by U+FFFD, because databases and UTF-8 do not accept them."""
    if isinstance(value, str):
        return _UNSENDABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(member) for key, member in value.items()}
    if isinstance(value, Sequence):
        return [_clean(item) for item in value]
    return value


_BLOCKS: Final = get_args(mcp_types.ContentBlock)


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the model, which tools, resources and prompts may return.

    `data` holds the bytes of the file, not Base64. `annotations` are not sent by a resource, whose
    decorator has its own. Source: 2026-07-28 server/tools "Tool Result".
    """

    data: bytes
    mime_type: str = "image/png"
    annotations: mcp_types.Annotations | None = None

    def block(self) -> mcp_types.ImageContent:
        """Return the content block of the protocol."""
        return mcp_types.ImageContent(data=to_base64(self.data), mime_type=self.mime_type, annotations=self.annotations)


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound for the model, with the same fields as `Image`."""

    data: bytes
    mime_type: str = "audio/wav"
    annotations: mcp_types.Annotations | None = None

    def block(self) -> mcp_types.AudioContent:
        """Return the content block of the protocol."""
        return mcp_types.AudioContent(data=to_base64(self.data), mime_type=self.mime_type, annotations=self.annotations)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def is_block(value: object) -> bool:
    """Return whether `value` is a content block of the protocol, an `Image` or an `Audio`."""
    return isinstance(value, (*_BLOCKS, Image, Audio))


def as_block(value: object) -> dict[str, Any]:
    """Return text or a content block as JSON. Raises `InvalidResult`."""
    if isinstance(value, str | Promise):
        return text_block(str(value.value if isinstance(value, Enum) else value))
    if isinstance(value, Image | Audio):
        if not isinstance(value.data, bytes):
            raise InvalidResult(f"the data of {type(value).__name__} must be bytes, not {type(value.data).__name__}")
        value = value.block()
    if not isinstance(value, _BLOCKS):
        raise InvalidResult(
            f"a list with content blocks may contain only content blocks and text, not a {type(value).__name__}"
        )
    check_annotations(value.annotations)
    if isinstance(value, mcp_types.ImageContent | mcp_types.AudioContent):
        check_mime_type(value.mime_type)
        check_base64(value.data)
    elif isinstance(value, mcp_types.EmbeddedResource):
        check_contents(value.resource)
    elif isinstance(value, mcp_types.ResourceLink):
        check_uri(value.uri)
        check_icons(value.icons)
    return dumped(value)


def dumped(model: BaseModel) -> dict[str, Any]:
    """Return an object of the protocol as JSON.

    Raises `InvalidResult` if its `_meta` holds a value that JSON cannot carry.
    """
    try:
        return model.model_dump(mode="json", by_alias=True, exclude_none=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidResult(f"a {type(model).__name__} cannot be written as JSON: {error}", NO_JSON) from error


def check_contents(contents: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> None:
    """Check resource contents. Like the checks below, it raises `InvalidResult`."""
    check_uri(contents.uri)
    if contents.mime_type is not None:
        check_mime_type(contents.mime_type)
    if isinstance(contents, mcp_types.BlobResourceContents):
        check_base64(contents.blob)


def check_uri(text: str) -> None:
    if not is_uri(text):
        raise InvalidResult(f"{text!r} is not a URI")


def check_mime_type(text: str | None) -> None:
    if not is_mime_type(text):
        raise InvalidResult(f"a MIME type looks like image/png, not {text!r}")


def check_base64(text: str) -> None:
    if not is_base64(text):
        raise InvalidResult("its data is not Base64")


def check_icons(icons: Sequence[mcp_types.Icon] | None) -> None:
    if not all(is_icon_source(icon.src) for icon in icons or ()):
        raise InvalidResult("the src of an icon must begin with https:// or data:")


def check_annotations(annotations: mcp_types.Annotations | None) -> None:
    if not is_dated(annotations):
        raise InvalidResult("lastModified must be an ISO 8601 time, such as 2026-01-31T15:00:58Z")


def is_dated(annotations: mcp_types.Annotations | None) -> bool:
    """Return whether `lastModified`, if there is one, is a valid time."""
    return annotations is None or annotations.last_modified is None or is_time(annotations.last_modified)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
