"""docs/reference/protocol.md agrees with the served methods, the official types, and the tests it names."""

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from mcp_types import methods as official

from mcp_app.protocol.revisions import LEGACY_REVISIONS, MODERN
from mcp_app.transport import methods
from mcp_app.transport.legacy import methods as legacy_methods

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reference/protocol.md"
REVISIONS: Final = (*LEGACY_REVISIONS, MODERN)
NOT_THERE: Final = "–"
ROW: Final = re.compile(r"^\| `(?P<method>[\w/]+)` \| (?P<cells>.*) \|$", re.MULTILINE)
NAMED: Final = re.compile(r"`(?P<file>[\w/]+\.py)(?:::(?P<test>test_\w+))?`")
OFFICIAL: Final = {
    "What clients ask": official.CLIENT_REQUESTS,
    "What clients tell": official.CLIENT_NOTIFICATIONS,
    "What the server asks": official.SERVER_REQUESTS,
    "What the server tells": official.SERVER_NOTIFICATIONS,
}
TASKS: Final = "The tasks extension"
DISPATCH: Final[tuple[Mapping[str, Any], ...]] = (methods.HANDLERS, legacy_methods.HANDLERS)


@cache
def rows(heading: str) -> Mapping[str, list[str]]:
    """Return the cells of each method below a heading."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {row["method"]: row["cells"].split(" | ") for row in ROW.finditer(section)}


@pytest.mark.parametrize("heading", OFFICIAL)
def test_every_method_of_every_revision_is_told_and_no_other(heading: str) -> None:
    known = {(method, revision) for method, revision in OFFICIAL[heading] if revision in REVISIONS}
    told = {
        (method, revision)
        for method, cells in rows(heading).items()
        for revision, cell in zip(REVISIONS, cells[: len(REVISIONS)], strict=True)
        if not cell.startswith(NOT_THERE)
    }
    assert told == known


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_said_to_be_served_is_what_is_dispatched(revision: str) -> None:
    at = REVISIONS.index(revision)
    told = {method for method, cells in rows("What clients ask").items() if cells[at].startswith("yes")}
    if revision == MODERN:
        told |= {method for method in rows(TASKS) if not method.startswith("notifications/")}
        assert told == methods.HANDLERS.keys()
    else:
        assert told == legacy_methods.HANDLERS.keys()


def test_where_a_method_is_served_is_where_its_handlers_are() -> None:
    for method, cells in (*rows("What clients ask").items(), *rows(TASKS).items()):
        handlers = [table[method] for table in DISPATCH if method in table]
        served = {handler.__module__.replace(".", "/") + ".py" for handler in handlers}
        told = {f"mcp_app/{each['file']}" for each in NAMED.finditer(cells[-2])}
        assert told == served or not served, method


def test_every_file_and_test_that_is_named_is_there() -> None:
    for heading in (*OFFICIAL, TASKS):
        for method, (*_, where, shown) in rows(heading).items():
            assert NAMED.search(where), method
            assert NAMED.search(shown), method
            for each in NAMED.finditer(where):
                assert (ROOT / "mcp_app" / each["file"]).is_file(), each[0]
    for each in NAMED.finditer(PAGE.read_text()):
        folder = next(folder for folder in ("mcp_app", "tests", ".") if (ROOT / folder / each["file"]).is_file())
        assert not each["test"] or each["test"] in names_in(ROOT / folder / each["file"]), each[0]


def names_in(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
