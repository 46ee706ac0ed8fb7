"""Binary content that a tool may return, without the base64 that the wire wants: `Image` and `Audio`."""

import base64
from dataclasses import dataclass

import mcp_types


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the model: its bytes and MIME type."""

    data: bytes
    mime_type: str = "image/png"
    annotations: mcp_types.Annotations | None = None

    def block(self) -> mcp_types.ImageContent:
        return mcp_types.ImageContent(data=_base64(self.data), mime_type=self.mime_type, annotations=self.annotations)


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound for the model: its bytes and MIME type."""

    data: bytes
    mime_type: str = "audio/wav"
    annotations: mcp_types.Annotations | None = None

    def block(self) -> mcp_types.AudioContent:
        return mcp_types.AudioContent(data=_base64(self.data), mime_type=self.mime_type, annotations=self.annotations)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
