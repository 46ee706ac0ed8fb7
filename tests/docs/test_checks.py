"""docs/reference/checks.md has every system check of this app, and the pages name no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs import pages
from tests.docs.pages import DOCS, ROOT, path_of

CHECKS: Final = ROOT / "mcp_app" / "checks"
ID: Final = re.compile(r"mcp_app\.[EW]\d{3}")
ROW: Final = re.compile(rf"^\| `({ID.pattern})` \| (.*) \|$", re.MULTILINE)


def ids_in(path: Path) -> Iterator[str]:
    """Yield the ids among the strings of a module. Texts that mention an id are not ids."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ID.fullmatch(node.value):
            yield node.value


def ids() -> set[str]:
    return {each for path in CHECKS.rglob("*.py") for each in ids_in(path)}


def rows() -> list[tuple[str, str]]:
    return ROW.findall((DOCS / "reference/checks.md").read_text())


def test_the_table_has_every_check_and_no_other() -> None:
    assert {check_id for check_id, _ in rows()} == ids()


def test_the_table_has_each_check_once_and_in_order() -> None:
    named = [check_id for check_id, _ in rows()]
    assert named == sorted(set(named))


def test_each_check_has_one_sentence() -> None:
    assert not [check_id for check_id, report in rows() if not re.fullmatch(r"[^.].*\.", report) or ". " in report]


@pytest.mark.parametrize("page", pages.pages())
def test_a_page_names_only_checks_that_exist(page: str) -> None:
    assert set(ID.findall(path_of(page).read_text())) <= ids()
