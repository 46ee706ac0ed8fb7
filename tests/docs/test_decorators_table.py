"""docs/reference/decorators.md lists the options of each decorator as their docstrings describe them.

MCP_SAMPLES=write python -m pytest tests/docs/test_decorators_table.py  writes the lists anew.
"""

import inspect
import re
from typing import Any, Final

import pytest

from mcp_app.prompts import prompt
from mcp_app.resources import resource
from mcp_app.tools import tool
from tests.docs.pages import DOCS
from tests.docs.samples import WRITES

PAGE: Final = DOCS / "reference" / "decorators.md"
DECORATORS: Final = {"tool": tool, "resource": resource, "prompt": prompt}
BULLET: Final = re.compile(r"^- (.+?): (.+?)(?=^- |^\S|\Z)", re.DOTALL | re.MULTILINE)


def options(decorator: Any) -> str:
    """Return a table of the options in a docstring."""
    found = BULLET.findall(inspect.getdoc(decorator) or "")
    rows = "".join(f"| {one_line(names)} | {capitalized(one_line(text))} |\n" for names, text in found)
    return f"| option | description |\n|---|---|\n{rows}"


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def section(page: str, name: str) -> tuple[str, str, str]:
    """Return the text of a page before the table below a heading, the table, and the text after it."""
    found = re.search(rf"(^## `@{name}`\n.*?)(\| option .*?\n)(?=\n|\Z)", page, re.DOTALL | re.MULTILINE)
    assert found is not None, f"there is no table below @{name}"
    return page[: found.start(2)], found[2], page[found.end(2) :]


@pytest.mark.parametrize("name", DECORATORS)
def test_the_table_has_every_option_as_its_docstring_describes_it(name: str) -> None:
    before, table, after = section(PAGE.read_text(), name)
    if WRITES:
        PAGE.write_text(before + options(DECORATORS[name]) + after)
    else:
        assert table == options(DECORATORS[name]), "MCP_SAMPLES=write puts the table into the page"
