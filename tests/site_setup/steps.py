"""The pages that lead to a site, as the steps that their reader takes: files to write, lines to type, what is seen.

The sentence before a block says what it is: "In `path`, a new file", "at the end"; of lines and of what is seen,
whether "in the site's terminal", at an address of the admin, after "Ctrl-C". Refuses blocks that say nothing of it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.pages import Snippet, snippets

CHECKOUT: Final = "/path/to/checkout"
PORT: Final = 8000
ANYTHING: Final = "…"
OF_ANOTHER_SITE: Final = "adding.md#routers-of-your-own"

_FILE: Final = re.compile(r"\bIn `(?P<path>[^`]+)`, (?P<where>at the end|a new file)")
_ADDRESS: Final = re.compile(rf"<http://127\.0\.0\.1:{PORT}(?P<path>/[^>]*)>")


@dataclass(frozen=True, slots=True)
class File:
    """Lines for a file: a new one, or the end of one that is there."""

    path: str
    is_new: bool
    text: str

    def write(self, site: Path) -> None:
        path = site / self.path
        path.parent.mkdir(exist_ok=True)
        with path.open("x" if self.is_new else "a") as file:
            file.write(self.text if self.is_new else "\n" + self.text)


@dataclass(frozen=True, slots=True)
class Shell:
    """Lines to type into a shell."""

    text: str
    in_site: bool = False
    """In the terminal where the site is served; else in the other."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is to be seen then, in a terminal or at an address."""

    text: str
    in_site: bool
    address: str
    """A path; empty in a terminal."""
    interrupts: bool
    """After Ctrl-C was pressed."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """For a text whose white space is single blanks: an ellipsis stands for anything."""
        parts = " ".join(self.text.split()).split(ANYTHING)
        return re.compile(".*?".join(map(re.escape, parts)))


Step = File | Shell | Seen


def adding() -> list[Step]:
    """Every block of docs/adding.md, in its order, but for that of a site with routers of its own, which is another."""
    return _steps([block for block in snippets("adding.md") if not block.is_in(OF_ANOTHER_SITE)])


def tutorial() -> list[Step]:
    """Every block of docs/tutorial.md, in its order."""
    return _steps(snippets("tutorial.md"))


def files() -> list[File]:
    """The files of the first part of docs/adding.md: a site that serves whoever asks."""
    found = [step for step in adding() if isinstance(step, File)]
    return found[: next(number for number, file in enumerate(found) if "authentication" in file.path)]


def _steps(blocks: Sequence[Snippet]) -> list[Step]:
    return [_step(block) for block in blocks]


def _step(block: Snippet) -> Step:
    in_site = "the site's terminal" in block.introduction
    if block.kind == "sh":
        return Shell(block.text, in_site)
    if named := _FILE.search(block.introduction):
        return File(named["path"], named["where"] == "a new file", block.text)
    assert block.kind == "text", f"a block that says nothing of what it is: {block.place}"
    address = _ADDRESS.search(block.introduction)
    return Seen(block.text, in_site, address["path"] if address else "", "Ctrl-C" in block.introduction)
