"""Finds the fenced and indented blocks of code in README.md and docs/, like Sphinx.

The name of a block consists of its page, its heading and, from the second block of the heading on, its number:
`django.md#middleware`, `django.md#middleware:2`. A test that takes a block from here must run it, because `account`
counts it as run.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]
README: Final = "README.md"
DOCS: Final = ROOT / "docs"
INDENTED: Final = "indented"
"""The kind of a block without a fence."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block of a page."""

    name: str
    kind: str
    """The first word after the fence."""
    text: str
    lines: tuple[int, int]
    """Its lines in the page, including the fences: the first (from 0), and the one after the last."""
    introduction: str
    """The paragraph before the block."""

    @property
    def page(self) -> str:
        return self.name.partition("#")[0]

    def is_in(self, place: str) -> bool:
        """Return whether the block is on this page, or below this heading."""
        return place in (self.page, self.name.partition(":")[0])

    @property
    def place(self) -> str:
        """The file and line of the block."""
        return f"{path_of(self.page).relative_to(ROOT)}:{self.lines[0] + 1}"


def snippet(name: str) -> Snippet:
    """Return the block with this name."""
    names = {each.name: each for each in of_page(name.partition("#")[0])}
    assert name in names, f"there is no block {name}, but {', '.join(names)}"
    return names[name]


def snippets(place: str) -> list[Snippet]:
    """Return all blocks of a page, or below one heading, in order."""
    within = [each for each in of_page(place.partition("#")[0]) if each.is_in(place)]
    assert within, f"there is no block in {place}"
    return within


def executed(*blocks: Snippet, under: str = "", **granted: Any) -> dict[str, Any]:
    """Execute blocks of Python in order, as one module of an app, and return the module's names.

    `granted`: names that the page takes for granted. `under`: a function for decorators that the page shows alone.
    """
    names: dict[str, Any] = {"__name__": "shop.mcp_tools", **granted}
    for block in blocks:
        exec(compile(block.text + under, block.place, "exec"), names)
    return names


def pages() -> list[str]:
    """Return the names of all pages."""
    return [README, *sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))]


def path_of(page: str) -> Path:
    return ROOT / page if page == README else DOCS / page


@cache
def of_page(page: str) -> tuple[Snippet, ...]:
    """Return all blocks of a page in order."""
    return tuple(_blocks(page, MarkdownIt().parse(path_of(page).read_text())))


def _blocks(page: str, tokens: list[Token]) -> Iterator[Snippet]:
    heading, introduction, opened, numbers = "", "", "", Counter[str]()
    for token in tokens:
        if token.type == "inline" and opened == "heading_open":
            heading = _slug(token.content)
        elif token.type == "inline":
            introduction = token.content
        opened = token.type
        if token.type in ("fence", "code_block") and token.map is not None:
            numbers[heading] += 1
            number = f":{numbers[heading]}" if numbers[heading] > 1 else ""
            kind = INDENTED if token.type == "code_block" else (token.info.split() or [""])[0]
            yield Snippet(f"{page}#{heading}{number}", kind, token.content, (token.map[0], token.map[1]), introduction)


def _slug(heading: str) -> str:
    """Return the heading as it is in its address."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
