"""Content blocks: what a tool or a prompt may say to a model, and `Image` and `Audio`, which spare authors the base64.

Refuses bytes that say not what they are. Source: 2026-07-28 server/tools "Tool Result", server/prompts "PromptMessage".
"""

import base64
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_args

import mcp_types
from django.utils.functional import Promise

from mcp_app.catalogue.errors import InvalidResult

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
    return dict(value.model_dump(mode="json", by_alias=True, exclude_none=True))


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
