"""`docs/project/upstream.md` lists exactly the names that this app uses and that other projects do not document."""

import ast
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.celery_adapter.private_names import Use, names_in, uses

ROOT: Final = Path(__file__).parents[2]
AT_MOST: Final = 45
ADAPTERS: Final = ("celery_adapter", "embedded")
"""The packages that may use undocumented names. Names of Django and psycopg may be used in every package."""
OF_DJANGO: Final = ("django", "psycopg")


class Row(NamedTuple):
    """A line of the table."""

    name: str
    module: str
    reason: str
    test: str

    @property
    def use(self) -> Use:
        return Use(self.name.rpartition(".")[2], self.module)


@cache
def rows() -> list[Row]:
    lines = (ROOT / "docs" / "project/upstream.md").read_text().splitlines()
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")
    ]
    return [Row(*each) for each in cells]


def test_every_use_is_listed_and_every_line_is_used() -> None:
    pytest.importorskip("rest_framework", reason="NO rest_framework: pip install -r .ci/requirements.txt")
    found, listed = uses(), {row.use for row in rows()}
    assert not found - listed, "not in docs/project/upstream.md"
    assert not {row for row in rows() if row.use.name not in names_in(row.module)}, "nobody uses these any more"
    assert len(set(rows())) == len(rows())


def test_there_are_few_and_all_but_those_of_django_are_in_the_adapters() -> None:
    assert len(rows()) <= AT_MOST
    elsewhere = {row for row in rows() if row.module.split(".")[0] not in ADAPTERS}
    assert not {row for row in elsewhere if row.name.split(".")[0] not in OF_DJANGO}


def test_each_has_a_test_that_names_it() -> None:
    for row in rows():
        path, _, name = row.test.partition("::")
        functions = {each.name: each for each in _functions(path)}
        assert name in functions, row
        assert row.use.name in ast.unparse(functions[name]), f"{row.test} does not name {row.use.name}"


@cache
def _functions(path: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    return [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
