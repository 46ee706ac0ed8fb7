"""Compares the output of commands on the pages with a real run, or updates the pages from one.

MCP_SAMPLES=write python -m pytest -m "acceptance or not acceptance" tests/docs/test_samples.py

Only ids, times, counts, versions, names of machines and widths may differ, because they change from run to run.
"""

import os
import re
import socket
from pathlib import Path
from typing import Final

from tests.docs.pages import Snippet, path_of

WRITES: Final = os.environ.get("MCP_SAMPLES") == "write"
SITE: Final = "/srv/site"
"""The folder of the site on the pages."""
_MACHINE: Final = "vm"
_UNIT: Final = r"(?:ms|s|min|h|days?)"
_DIFFERS: Final = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?", "TIME"),
    (r"\d{4}-\d\d-\d\d", "DAY"),
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}\b", "ID"),
    (r"\b[\w-]+@[\w.-]+", "SOMEBODY"),
    (rf"\b{_MACHINE}:\d+", "PROCESS"),
    (rf"\b\d+(?:\.\d+)? {_UNIT}\b(?: \d+ {_UNIT}\b)*", "LENGTH"),
    (r"\[#*-*\]", "BAR"),
    (r"PostgreSQL \S+ \([^)]*\)", "PostgreSQL N"),
    (r"(?<![\w.])\d+(?:[.:]\d+)*", "N"),
    (r"(?:ahead of|behind) this machine's", "beside this machine's"),
    (r"[ \t]+", " "),
)


def same(block: Snippet, printed: str) -> None:
    """Fail if the page does not show the printed text, or put the text into the page."""
    if WRITES:
        write(block, printed)
    else:
        assert shape(printed) == shape(block.text), f"{block.place}: {write.__doc__}"


def write(block: Snippet, printed: str) -> None:
    """MCP_SAMPLES=write puts the printed text into the page."""
    page = path_of(block.page)
    text = page.read_text()
    assert text.count(block.text) == 1
    page.write_text(text.replace(block.text, printed))


def shape(text: str) -> list[str]:
    """Return the lines of a text. Values that change from run to run are replaced."""
    for differs, instead in _DIFFERS:
        text = re.sub(differs, instead, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def as_on_a_page(printed: str, data: Path) -> str:
    """Return the text with the names on the pages instead of this machine's."""
    text = printed.replace(str(data), SITE).replace(socket.gethostname(), _MACHINE)
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())
