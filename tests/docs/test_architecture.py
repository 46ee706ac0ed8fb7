"""The functions and files that docs/explanation/architecture.md names exist."""

import ast
import re
from typing import Final

import pytest

from tests.docs.pages import DOCS, ROOT

APP: Final = ROOT / "mcp_app"
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (DOCS / "explanation/architecture.md").read_text().splitlines()
    if re.search(r"`[\w/]+\.py` \|$", line)
]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def definitions(path: str) -> set[str]:
    """Return the names of a module's functions, classes and methods (`Class.method`)."""
    names = set()
    for node in ast.parse((APP / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{each.name}" for each in functions}
    return names


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[-2:]))
def test_a_step_names_functions_and_files_that_exist(row: list[str]) -> None:
    paths = code(row[-1])
    missing = [path for path in paths if not (APP / path).is_file()]
    assert not missing
    if len(row) == 4:
        assert set(code(row[2])) <= definitions(paths[0])


def test_the_parts_are_the_packages_and_modules_of_the_app() -> None:
    parts = (DOCS / "explanation/architecture.md").read_text().partition("## The parts")[2].partition("\n## ")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", parts, re.MULTILINE) for name in code(row)}
    packages = {path.parent.name for path in APP.glob("*/__init__.py")} - {"migrations"}
    modules = {path.stem for path in APP.glob("*.py")} - {"__init__", "apps"}
    assert named == packages | modules


def test_the_rows_are_the_models() -> None:
    rows = (DOCS / "explanation/architecture.md").read_text().partition("## The rows")[2].partition("\n## ")[0]
    named = {name for name in code(rows) if re.fullmatch(r"(?:[A-Z][a-z]+)+", name)}
    models = {
        name
        for path in (APP / "models").glob("*.py")
        for name in re.findall(r"^class (\w+)\((?:Row|Request)\):", path.read_text(), re.MULTILINE)
    }
    assert named == models
