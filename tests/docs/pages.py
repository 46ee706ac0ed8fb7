"""The blocks of code in README.md and docs/, found as Sphinx finds them: fenced or indented.

A block is named by its page, its heading and, where the heading has several, its number there: `django.md#middleware`,
then `django.md#middleware:2`. Whoever takes a block from here runs it: `account` reads that off the code of the tests.
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
"""The kind of a block that has no fence, to say one."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block of a page."""

    name: str
    kind: str
    """The first word behind its fence."""
    text: str
    lines: tuple[int, int]
    """Where it stands in its page, its fences included: the first line, from 0, and the one after the last."""
    introduction: str
    """The paragraph before it."""

    @property
    def page(self) -> str:
        return self.name.partition("#")[0]

    def is_in(self, place: str) -> bool:
        """Whether it stands on that page, or below that heading."""
        return place in (self.page, self.name.partition(":")[0])

    @property
    def place(self) -> str:
        """Where to look for it."""
        return f"{path_of(self.page).relative_to(ROOT)}:{self.lines[0] + 1}"


def snippet(name: str) -> Snippet:
    """The one block of that name."""
    names = {each.name: each for each in of_page(name.partition("#")[0])}
    assert name in names, f"there is no block {name}, but {', '.join(names)}"
    return names[name]


def snippets(place: str) -> list[Snippet]:
    """Every block of a page, or of what stands below one heading, in their order."""
    within = [each for each in of_page(place.partition("#")[0]) if each.is_in(place)]
    assert within, f"there is no block in {place}"
    return within


def executed(*blocks: Snippet, under: str = "", **granted: Any) -> dict[str, Any]:
    """What blocks of Python define as one module of an app's, in their order; it has what its page takes for granted.

    `under`: what decorators decorate that a page shows alone.
    """
    names: dict[str, Any] = {"__name__": "shop.mcp_tools", **granted}
    for block in blocks:
        exec(compile(block.text + under, block.place, "exec"), names)
    return names


def pages() -> list[str]:
    """The names of all pages."""
    return [README, *sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))]


def path_of(page: str) -> Path:
    return ROOT / page if page == README else DOCS / page


@cache
def of_page(page: str) -> tuple[Snippet, ...]:
    """Every block of that page, in their order."""
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
    """As in the address of the heading."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
