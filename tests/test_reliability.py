"""docs/project/reliability.md and the tests agree: each row names exactly the tests that are marked with it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
PAGE: Final = TESTS.parent / "docs" / "project/reliability.md"
ROW: Final = re.compile(r"^\| ([A-I]\d+) \|[^|]*\|([^|]*)\|", re.MULTILINE)
NAMED: Final = re.compile(r"`([^`]*?\.py|…)(?:::(test_\w+))?`")

Proofs = dict[str, set[str]]


@cache
def on_the_page() -> Proofs:
    """Return the tests of each row on the page, as `transport/test_calls.py::test_name`.

    `…` stands for the file that was named before. A file without a test stands for all its tests with the row's mark.
    """
    marked = in_the_tests()
    rows = {}
    for row, cell in ROW.findall(PAGE.read_text()):
        file, tests = "", set()
        for where, name in NAMED.findall(cell):
            file = file if where == "…" else where
            of_file = {test for test in marked.get(row, ()) if test.startswith(f"{file}::")}
            tests |= {f"{file}::{name}"} if name else of_file or {f"{file}::no test with this mark"}
        rows[row] = tests
    return rows


@cache
def in_the_tests() -> Proofs:
    """Return the tests of each row that have `@pytest.mark.fault(row)` themselves or through their module."""
    rows = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        of_module = [row for mark in module.body if _is_pytestmark(mark) for row in _marks(mark)]
        for function in module.body:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test_"):
                for row in [*of_module, *(row for mark in function.decorator_list for row in _marks(mark))]:
                    rows[row].add(f"{path.relative_to(TESTS)}::{function.name}")
    return dict(rows)


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def _marks(node: ast.AST) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.fault":
            yield from (ast.literal_eval(argument) for argument in call.args)


@pytest.mark.parametrize("row", sorted(on_the_page()))
def test_a_row_names_the_tests_that_are_marked_with_it(row: str) -> None:
    named, marked = on_the_page()[row], in_the_tests().get(row, set())
    assert named, "no test at all"
    assert named == marked


def test_no_test_is_marked_with_a_row_that_there_is_not() -> None:
    assert in_the_tests().keys() <= on_the_page().keys()
