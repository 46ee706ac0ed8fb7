"""The commands that the tool `run_command` may run: argument lists with typed placeholders, from `MCPSITE_COMMANDS`.

A placeholder is a `file` or a `path` (file or folder) in the uploads folder, a `number` or a `text`. Values that a
program could interpret as an option, and paths outside of that folder, are rejected. No shell is used.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

MAX_NUMBER: Final = 10_000
MAX_TEXT_CHARS: Final = 200
_GAP: Final = re.compile(r"\{(\w+):(\w+)\}")

Value = str | int


class RefusedError(ValueError):
    """The command cannot be run with these values. The message explains what to change."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its description, its argument list, and the type of each placeholder."""

    name: str
    does: str
    argv: tuple[str, ...]
    gaps: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.gaps)}): {self.does}"

    def filled(self, values: Mapping[str, Value]) -> list[str]:
        """Return the argument list to run in the uploads folder. Raises `RefusedError`."""
        if values.keys() != self.gaps.keys():
            raise RefusedError(f"The command {self.name} takes these arguments: {', '.join(self.gaps)}.")
        checked = {name: self._checked(name, values[name]) for name in self.gaps}
        return [checked[gap[1]] if (gap := _GAP.fullmatch(part)) else part for part in self.argv]

    def _checked(self, name: str, value: Value) -> str:
        try:
            return _TYPES[self.gaps[name]](value)
        except RefusedError as error:
            raise RefusedError(f"The argument {name} {error}") from None


def commands() -> dict[str, Command]:
    """Return the site's commands by name. Raises `ImproperlyConfigured`."""
    return {name: _command(name, **options) for name, options in settings.MCPSITE_COMMANDS.items()}


def _command(name: str, *, does: str, argv: list[str]) -> Command:
    gaps = {gap[1]: gap[2] for part in argv if (gap := _GAP.fullmatch(part))}
    if unknown := set(gaps.values()) - _TYPES.keys():
        raise ImproperlyConfigured(
            f"MCPSITE_COMMANDS[{name!r}] has a gap of the type {unknown.pop()!r}; there are {', '.join(_TYPES)}."
        )
    return Command(name, does, tuple(argv), MappingProxyType(gaps))


def _text(value: Value) -> str:
    text = str(value)
    if not text or len(text) > MAX_TEXT_CHARS or not text.isprintable():
        raise RefusedError(f"has 1 to {MAX_TEXT_CHARS} characters, all of them printable.")
    if text.startswith("-"):
        raise RefusedError("does not begin with a dash, which would make it an option.")
    return text


def _number(value: Value) -> str:
    if not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
        raise RefusedError(f"is a whole number from 0 to {MAX_NUMBER}.")
    return str(int(value))


def _path(value: Value) -> str:
    """Return the path for the program: relative to the uploads folder, with `./` before it, and without links."""
    text = _text(value)
    folder: Path = settings.UPLOADS.resolve()
    path = (folder / text).resolve()
    if not path.is_relative_to(folder):
        raise RefusedError("lies inside the uploads folder.")
    if not path.exists():
        raise RefusedError("is something that exists in the uploads folder; list_files with folder . shows what does.")
    return f"./{path.relative_to(folder)}"


def _file(value: Value) -> str:
    path = _path(value)
    if not (settings.UPLOADS / path).is_file():
        raise RefusedError("is a file, not a folder.")
    return path


_TYPES: Final[Mapping[str, Callable[[Any], str]]] = MappingProxyType(
    {"file": _file, "number": _number, "path": _path, "text": _text}
)
