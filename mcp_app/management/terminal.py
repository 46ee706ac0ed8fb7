"""Output for a terminal: its size, texts on one line, tables."""

import os
import unicodedata
from collections.abc import Sequence
from typing import Final, TextIO

from mcp_app.safe_text import safe_text

GAP: Final = "  "
NARROWEST: Final = 8
"""The least width of a column that is cut, in cells."""
DEFAULT_COLUMNS: Final = 80
ERASE_LINE: Final = "\r\x1b[K"
HOME, ERASE_REST, ERASE_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def is_live(stream: TextIO) -> bool:
    """Whether lines can be overwritten there: it is a terminal with that capability."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def size(stream: TextIO) -> tuple[int, int]:
    """Return the columns and lines of the terminal."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return DEFAULT_COLUMNS, 24
    return found.columns or DEFAULT_COLUMNS, found.lines or 24


def count_of(number: int, noun: str) -> str:
    """Return a count with a noun whose plural ends in s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: object, cells: int | None = None) -> str:
    """Return a foreign text on one line, escaped and cut to `cells`."""
    line = " ".join(safe_text(text).split())
    return line if cells is None else cut(line, cells)


def width(text: str) -> int:
    """Return the width of a line in cells."""
    return sum(map(_cells, text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None, flexible: Sequence[int]) -> str:
    """Return the lines of a table with a heading. To fit into `columns` cells, the `flexible` columns are cut."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(width(line[index]) for line in lines) for index in range(len(heads))]
    if columns is not None:
        _narrow(widths, columns, flexible)
    return "\n".join(
        GAP.join(_pad(cut(cell, room), room) for cell, room in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _narrow(widths: list[int], columns: int, flexible: Sequence[int]) -> None:
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - columns
    while excess > 0 and (wide := [index for index in flexible if widths[index] > NARROWEST]):
        widths[max(wide, key=widths.__getitem__)] -= 1
        excess -= 1


def _pad(text: str, cells: int) -> str:
    return text + " " * (cells - width(text))


def cut(text: str, cells: int) -> str:
    """Return the beginning of a line that fits into `cells`."""
    if width(text) <= cells:
        return text
    kept, taken = [], 1  # for the ellipsis
    for character in text:
        if (taken := taken + _cells(character)) > cells:
            break
        kept.append(character)
    return "".join(kept) + "…"[:cells]


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
