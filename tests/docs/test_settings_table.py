"""docs/reference/settings.md has a table of every setting: its default and its description in `mcp_app/conf.py`.

MCP_SAMPLES=write python -m pytest tests/docs/test_settings_table.py  writes the table anew.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from mcp_app import conf
from tests.docs.pages import DOCS
from tests.docs.samples import WRITES

PAGE: Final = DOCS / "reference" / "settings.md"
HEAD: Final = "| setting | default | description |\n|---|---|---|\n"
CONSTANTS: Final = {"KIB": 1024, "MIB": 1024 * 1024}
UNITS: Final = {"KIB": "KiB", "MIB": "MiB"}
CODE: Final = re.compile(r"(`[^`]*`)")


def settings() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the default and the description of each setting, in the order of the code."""
    [defaults] = ast.parse(inspect.getsource(conf.Defaults)).body
    assert isinstance(defaults, ast.ClassDef)
    for declared, described in zip(defaults.body, defaults.body[1:], strict=False):
        if isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name) and declared.value:
            assert isinstance(described, ast.Expr), f"{declared.target.id} has no description"
            value = eval(compile(ast.Expression(declared.value), "conf.py", "eval"), dict(CONSTANTS))
            unit = next((name for name in CONSTANTS if name in ast.unparse(declared.value)), "")
            yield declared.target.id, shown(value, unit), one_line(ast.literal_eval(described.value))


def shown(value: Any, unit: str) -> str:
    """Return a number of bytes in the unit with which the code multiplies it, and any other value as it is."""
    return f"{value // CONSTANTS[unit]} {UNITS[unit]}" if unit else f"`{value!r}`"


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def table() -> str:
    return HEAD + "".join(f"| `{name}` | {default} | {text} |\n" for name, default, text in settings())


def test_the_table_has_every_setting_with_its_default_and_its_description() -> None:
    text = PAGE.read_text()
    before, _, _ = text.partition(HEAD)
    if WRITES:
        PAGE.write_text(before + table())
    else:
        assert text == before + table(), "MCP_SAMPLES=write puts the table into the page"
