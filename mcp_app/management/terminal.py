"""What a terminal can show: its size, a text on one line of it, a table. Refuses colours, and to read anything."""

import os
import unicodedata
from collections.abc import Sequence
from typing import Final, TextIO

from mcp_app.lifecycle.inert import inert

GAP: Final = "  "
NARROWEST: Final = 8
"""What a column that can be cut is left, in cells."""
DEFAULT_COLUMNS: Final = 80
ERASE_LINE: Final = "\r\x1b[K"
HOME, ERASE_REST, ERASE_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def is_live(stream: TextIO) -> bool:
    """Whether what is written there can be overwritten: a terminal that knows how."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return DEFAULT_COLUMNS, 24
    return found.columns or DEFAULT_COLUMNS, found.lines or 24


def count_of(number: int, noun: str) -> str:
    """So many of something whose plural has an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: object, cells: int | None = None) -> str:
    """A foreign text on one line, inert; cut to so many cells."""
    line = " ".join(inert(text).split())
    return line if cells is None else cut(line, cells)


def width(text: str) -> int:
    """How many cells a line takes."""
    return sum(map(_cells, text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None, flexible: Sequence[int]) -> str:
    """Lines with a heading. With `columns`, the cells of a line: the `flexible` columns, the widest first, are cut."""
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
    """The beginning of a line that fits into so many cells."""
    if width(text) <= cells:
        return text
    kept, taken = [], 1  # for the sign that it was cut
    for character in text:
        if (taken := taken + _cells(character)) > cells:
            break
        kept.append(character)
    return "".join(kept) + "…"[:cells]


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
