"""Each package is small, and its docstring lists its modules. Each class name is unique."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import mcp_app

ROOT = Path(mcp_app.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))
WITHOUT_LIST = {"migrations", "management/commands"}
"""Packages whose modules Django finds by their place."""


NAMED_BY_DJANGO = {"Media", "Meta", "Migration"}


def name(package):
    return package.relative_to(ROOT).as_posix()


def entries(package):
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def test_no_class_name_means_two_things():
    classes = [
        node.name
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert {each for each, times in Counter(classes).items() if times > 1} == NAMED_BY_DJANGO


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_a_package_has_at_most_20_modules(package):
    assert len(list(package.glob("*.py"))) <= 20


@pytest.mark.parametrize("package", [each for each in PACKAGES if name(each) not in WITHOUT_LIST], ids=name)
def test_a_package_lists_its_modules(package):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()), clean=False) or ""
    first_columns = re.findall(r"^(?: {4})?([\w/]+(?:, [\w/]+)*) {2,}", docstring, re.MULTILINE)
    assert {each.strip("/") for column in first_columns for each in column.split(", ")} == entries(package)
