"""Finds which test runs each block of the pages: the one that calls `snippet("page.md#heading")` or `snippets(…)`.

The tests' code is parsed, not run. So the name of a block must be a literal in that call.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs import pages
from tests.docs.pages import ROOT, Snippet

BY_SPHINX: Final = "a directive: .ci/run builds the pages with `sphinx-build -W`"


@dataclass(frozen=True, slots=True)
class Claim:
    """A call in the tests' code that takes one block, or all blocks of a page or a heading."""

    place: str
    is_one: bool
    by: str

    def takes(self, block: Snippet) -> bool:
        return block.name == self.place if self.is_one else block.is_in(self.place)


@dataclass(frozen=True, slots=True)
class Entry:
    """One block, with the tests that run it, or the reason why none does."""

    block: Snippet
    run_by: tuple[str, ...]
    no_snippet: str

    @property
    def is_settled(self) -> bool:
        return bool(self.run_by) != bool(self.no_snippet)

    def __str__(self) -> str:
        told = ", ".join(self.run_by) or self.no_snippet or "NOBODY RUNS IT"
        return f"{self.block.place}  {self.block.kind or 'no language'}  {self.block.name}  {told}"


def of_page(page: str) -> list[Entry]:
    """Return the entries of all blocks of a page."""
    return [
        Entry(block, tuple(sorted({claim.by for claim in claims() if claim.takes(block)})), _reason(block))
        for block in pages.of_page(page)
    ]


def _reason(block: Snippet) -> str:
    return BY_SPHINX if block.kind.startswith("{") else ""


@cache
def claims() -> tuple[Claim, ...]:
    """Return all claims in the tests' code."""
    return tuple(
        claim for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__) for claim in _of_file(path)
    )


def _of_file(path: Path) -> Iterator[Claim]:
    text = path.read_text()
    if "docs.pages" not in text:
        return
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and (name := ast.unparse(call.func)) in ("snippet", "snippets"):
            place = call.args[0]
            where = f"{path.relative_to(ROOT)}:{call.lineno}"
            assert isinstance(place, ast.Constant), f"{where}: the name of a block is to be written where it is taken"
            yield Claim(str(place.value), name == "snippet", str(path.relative_to(ROOT)))
