"""The README's "Add it to your Django site", as the steps that its reader takes: files to write, lines to type.

Refuses a README whose blocks do not say what they are.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.pages import Snippet, snippets

CHECKOUT: Final = "/path/to/checkout"
PORT: Final = 8000

_FILE: Final = re.compile(r"^In `(?P<path>[^`]+)`, (?P<where>at the end|a new file)")


@dataclass(frozen=True, slots=True)
class File:
    """Lines for a file: a new one, or the end of one that is there."""

    path: str
    is_new: bool
    text: str

    def write(self, site: Path) -> None:
        with (site / self.path).open("x" if self.is_new else "a") as file:
            file.write(self.text if self.is_new else "\n" + self.text)


@dataclass(frozen=True, slots=True)
class Shell:
    """Lines to type into a shell."""

    text: str


Step = File | Shell


def steps() -> list[Step]:
    """Every block of the section, in its order."""
    return [_step(block) for block in snippets("README.md#add-it-to-your-django-site")]


def files() -> list[File]:
    """The files of the first part: a site that serves whoever asks."""
    found = [step for step in steps() if isinstance(step, File)]
    return found[: next(number for number, file in enumerate(found) if "authentication" in file.path)]


def _step(block: Snippet) -> Step:
    if block.kind == "sh":
        return Shell(block.text)
    named = _FILE.search(block.introduction)
    assert block.kind == "python", f"a block that says nothing of what it is: {block.place}"
    assert named, f"a block that names no file: {block.place}"
    return File(named["path"], named["where"] == "a new file", block.text)
