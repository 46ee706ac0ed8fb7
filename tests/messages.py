"""Lists every message of the app, once, by its reader: `python -m tests.messages [READER ...]`.

A message is a string of three words or more that is neither a docstring nor SQL. It is read from the code, so
placeholders appear as `{…}`. The readers are `clients` (MCP errors and results, which models read as well), `log`,
`terminal` (commands, checks, the doctor) and `admin`.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import mcp_app

ROOT: Final = Path(mcp_app.__file__).parent
READERS: Final = ("clients", "log", "terminal", "admin")
TERMINAL: Final = ("management", "checks", "diagnosis")
ADMIN: Final = ("admin", "presentation", "models", "templatetags")
LOG_CALLS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
SQL: Final = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|DROP|PRAGMA|CASE|VALUES|ALTER|BEGIN)\b|.*\bNEW\.")
TAG: Final = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|<script.*?</script>|<style.*?</style>|<[^>]*>", re.DOTALL)


def text_of(node: ast.expr) -> str | None:
    """Return a string or f-string with its placeholders as `{…}`, or `None` for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values]
        return "".join(parts)
    return None


def is_message(text: str) -> bool:
    return len(re.findall(r"[^\W\d_]{2,}", text)) >= 3 and " " in text.strip() and not SQL.match(text)


def in_module(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the line, the text and whether it is logged, for each message of a module."""
    tree = ast.parse(path.read_text())
    skipped: set[ast.AST] = set()
    logged: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(node.value)  # docstrings
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_CALLS:
            logged.update(node.args)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node not in skipped and (text := text_of(node)) and is_message(text):
            yield node.lineno, " ".join(text.split()), node in logged


def in_template(path: Path) -> Iterator[tuple[int, str, bool]]:
    for number, line in enumerate(TAG.sub("\n", path.read_text()).splitlines(), 1):
        if is_message(line):
            yield number, " ".join(line.split()), False


def reader_of(package: str, *, is_logged: bool) -> str:
    if is_logged:
        return "log"
    if package in TERMINAL:
        return "terminal"
    return "admin" if package in ADMIN or package == "templates" else "clients"


def messages() -> dict[str, dict[str, str]]:
    """Return the messages by reader, each with its first place in the code."""
    found: dict[str, dict[str, str]] = {reader: {} for reader in READERS}
    for path in sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.html")]):
        place = path.relative_to(ROOT)
        if "migrations" in place.parts:
            continue
        of_file = in_template(path) if path.suffix == ".html" else in_module(path)
        for line, text, is_logged in of_file:
            found[reader_of(place.parts[0], is_logged=is_logged)].setdefault(text, f"{place}:{line}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.messages", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", choices=[[], *READERS], help=", ".join(READERS))
    chosen = parser.parse_args().readers or READERS
    for reader, texts in messages().items():
        if reader in chosen:
            sys.stdout.write(f"\n# {reader}: {len(texts)}\n\n")
            sys.stdout.writelines(f"{text}\n    {place}\n" for text, place in texts.items())


if __name__ == "__main__":
    main()
