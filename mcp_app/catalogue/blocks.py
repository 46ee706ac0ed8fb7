"""Content blocks: what a tool or a prompt may say to a model, and `Image` and `Audio`, which spare authors the base64.

Refuses bytes that say not what they are, and Base64, addresses, MIME types and times that are none.
Source: 2026-07-28 server/tools "Tool Result", server/prompts "PromptMessage".
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_args

import mcp_types
from django.utils.functional import Promise

from mcp_app.catalogue.errors import InvalidResult
from mcp_app.protocol.formats import is_base64, is_icon_source, is_mime_type, is_time
from mcp_app.protocol.uris import is_uri

_BLOCKS: Final = get_args(mcp_types.ContentBlock)


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the model: its bytes and MIME type."""

    data: bytes
    mime_type: str = "image/png"
    annotations: mcp_types.Annotations | None = None

    def block(self) -> mcp_types.ImageContent:
        return mcp_types.ImageContent(data=to_base64(self.data), mime_type=self.mime_type, annotations=self.annotations)


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound for the model: its bytes and MIME type."""

    data: bytes
    mime_type: str = "audio/wav"
    annotations: mcp_types.Annotations | None = None

    def block(self) -> mcp_types.AudioContent:
        return mcp_types.AudioContent(data=to_base64(self.data), mime_type=self.mime_type, annotations=self.annotations)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def is_block(value: object) -> bool:
    """Whether `value` is a content block, or becomes one without being text."""
    return isinstance(value, (*_BLOCKS, Image, Audio))


def as_block(value: object) -> dict[str, Any]:
    """Text or a block as the wire has it. Raises `InvalidResult`."""
    if isinstance(value, str | Promise):
        return text_block(str(value.value if isinstance(value, Enum) else value))
    if isinstance(value, Image | Audio):
        if not isinstance(value.data, bytes):
            raise InvalidResult(f"the data of an {type(value).__name__} is bytes, not {type(value.data).__name__}")
        value = value.block()
    if not isinstance(value, _BLOCKS):
        raise InvalidResult(f"a {type(value).__name__} stands among content blocks; only text may")
    check_annotations(value.annotations)
    if isinstance(value, mcp_types.ImageContent | mcp_types.AudioContent):
        check_mime_type(value.mime_type)
        check_base64(value.data)
    elif isinstance(value, mcp_types.EmbeddedResource):
        check_contents(value.resource)
    elif isinstance(value, mcp_types.ResourceLink):
        check_uri(value.uri)
        check_icons(value.icons)
    return dict(value.model_dump(mode="json", by_alias=True, exclude_none=True))


def check_contents(contents: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> None:
    """Raises `InvalidResult`, as all that follow."""
    check_uri(contents.uri)
    if contents.mime_type is not None:
        check_mime_type(contents.mime_type)
    if isinstance(contents, mcp_types.BlobResourceContents):
        check_base64(contents.blob)


def check_uri(text: str) -> None:
    if not is_uri(text):
        raise InvalidResult(f"{text!r} is no URI")


def check_mime_type(text: str | None) -> None:
    if not is_mime_type(text):
        raise InvalidResult(f"a MIME type is written as image/png; {text!r} is none")


def check_base64(text: str) -> None:
    if not is_base64(text):
        raise InvalidResult("its data is no Base64")


def check_icons(icons: Sequence[mcp_types.Icon] | None) -> None:
    if not all(is_icon_source(icon.src) for icon in icons or ()):
        raise InvalidResult("an icon's src begins with https:// or data:")


def check_annotations(annotations: mcp_types.Annotations | None) -> None:
    if not is_dated(annotations):
        raise InvalidResult("lastModified is a time as ISO 8601 has it, as 2026-01-31T15:00:58Z")


def is_dated(annotations: mcp_types.Annotations | None) -> bool:
    """Whether the time that they may have is one."""
    return annotations is None or annotations.last_modified is None or is_time(annotations.last_modified)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
