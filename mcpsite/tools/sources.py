"""Reads and encodes Python files with the encoding that they declare. Line ends are kept."""

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes, text and declared encoding of a file. A byte order mark is part of the encoding."""

    data: bytes
    text: str
    encoding: str

    def encoded(self, text: str) -> bytes:
        """Encode another text like this file. Raises `UnicodeEncodeError`."""
        return text.encode(self.encoding)


def read(path: Path) -> Source:
    """Read a file. Raises `SyntaxError`, `UnicodeDecodeError` and `OSError`."""
    data = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return Source(data, data.decode(encoding), encoding)
