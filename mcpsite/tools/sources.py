"""Python files as text and back: the encoding that a file declares, its line ends as they are."""

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """A file's bytes, its text, and the encoding that it declares; a byte order mark belongs to the encoding."""

    data: bytes
    text: str
    encoding: str

    def encoded(self, text: str) -> bytes:
        """Another text in this file's encoding. Raises UnicodeEncodeError where that has not its letters."""
        return text.encode(self.encoding)


def read(path: Path) -> Source:
    """Raises SyntaxError or UnicodeDecodeError where a file is not what it declares, OSError where it is not there."""
    data = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return Source(data, data.decode(encoding), encoding)
