"""Reads contacts from CSV, and reports the errors of each line. An unknown column is an error."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from django.core.exceptions import ValidationError

from mcpsite.models import Contact

KEY: Final = "email"
REQUIRED: Final = (KEY, "name")
COLUMNS: Final = (*REQUIRED, "company", "phone")
MAX_PROBLEM_CHARS: Final = 300


class UnreadableError(ValueError):
    """The text is not a CSV file of contacts. The message explains what to change."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of data with its line number. It has either a contact or a problem."""

    number: int
    contact: Contact | None
    problem: str = ""


class ContactFile:
    """CSV with a header. Raises `UnreadableError` if the text or its header cannot be used."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.columns = self._header()

    def cells(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the lines of data with their numbers, unchecked. Empty lines are skipped."""
        lines = self._lines()
        next(lines, None)
        return lines

    def lines(self) -> Iterator[Line]:
        """Yield the lines of data, checked."""
        return (self._checked(number, cells) for number, cells in self.cells())

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        self._stream.seek(0)
        reader = csv.reader(self._stream, strict=True)
        number = 1
        try:
            for cells in reader:
                if cells:
                    yield number, cells
                number = reader.line_num + 1
        except csv.Error as error:
            raise UnreadableError(f"Line {number} is not CSV: {error}.") from error
        except UnicodeDecodeError as error:
            raise UnreadableError(f"The file is not UTF-8 text, from about line {number} on.") from error

    def _header(self) -> tuple[str, ...]:
        _, cells = next(self._lines(), (1, []))
        columns = tuple(cell.strip().lower() for cell in cells)
        known = f"The first line names the columns: {', '.join(REQUIRED)}, and if you like company, phone."
        if missing := [name for name in REQUIRED if name not in columns]:
            raise UnreadableError(f"There is no column {missing[0]!r}. {known}")
        if unknown := [name for name in columns if name not in COLUMNS or columns.count(name) > 1]:
            raise UnreadableError(f"The column {unknown[0][:40]!r} is unknown or there twice. {known}")
        return columns

    def _checked(self, number: int, cells: list[str]) -> Line:
        if len(cells) != len(self.columns):
            return Line(number, None, f"It has {len(cells)} cells, the header {len(self.columns)}.")
        values = {column: cell.strip() for column, cell in zip(self.columns, cells, strict=True)}
        contact = Contact(**{**values, KEY: values[KEY].lower()})
        try:
            contact.clean_fields(exclude={"id"})
        except ValidationError as error:
            return Line(number, None, _sentence(error.message_dict))
        return Line(number, contact)


def _sentence(problems: Mapping[str, list[str]]) -> str:
    return " ".join(f"{column}: {' '.join(words)}" for column, words in problems.items())[:MAX_PROBLEM_CHARS]
