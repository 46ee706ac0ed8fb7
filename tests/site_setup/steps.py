"""Parses pages that describe how to set up a site into steps: files to write, lines to type, output to expect.

The paragraph before a block determines its kind: "In `path`, a new file" or "In `path`, at the end" for files. Lines
and output may be "in the site's terminal", and output may be at an address of the admin or follow "Ctrl-C". Any other
block is an error.
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
OF_ANOTHER_SITE: Final = "how-to/adding.md#routers-of-your-own"

_FILE: Final = re.compile(r"\bIn `(?P<path>[^`]+)`, (?P<where>at the end|a new file)")
_ADDRESS: Final = re.compile(rf"<http://127\.0\.0\.1:{PORT}(?P<path>/[^>]*)>")


@dataclass(frozen=True, slots=True)
class File:
    """Lines for a new file, or for the end of an existing one."""

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
    """Whether they are typed in the terminal that serves the site, or in the other one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The expected output in a terminal, or the expected text of a page."""

    text: str
    in_site: bool
    address: str
    """The path of the page. Empty for a terminal."""
    interrupts: bool
    """Whether Ctrl-C is pressed first."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches a text whose white space is single spaces. An ellipsis matches anything."""
        parts = " ".join(self.text.split()).split(ANYTHING)
        return re.compile(".*?".join(map(re.escape, parts)))


Step = File | Shell | Seen


def adding() -> list[Step]:
    """Return the steps of docs/how-to/adding.md in order, without the block for a site with routers."""
    return _steps([block for block in snippets("how-to/adding.md") if not block.is_in(OF_ANOTHER_SITE)])


def tutorial() -> list[Step]:
    """Return the steps of docs/tutorial.md in order."""
    return _steps(snippets("tutorial.md"))


def files() -> list[File]:
    """Return the files of the first part of docs/how-to/adding.md: a site without authentication."""
    found = [step for step in adding() if isinstance(step, File)]
    return found[: next(number for number, file in enumerate(found) if "authentication" in file.path)]


def own_parts() -> list[File]:
    """Return the files of docs/how-to/your-own-parts.md: a database, a broker and a Celery app of the site's own."""
    return [step for step in _steps(snippets("how-to/your-own-parts.md")) if isinstance(step, File)]


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
