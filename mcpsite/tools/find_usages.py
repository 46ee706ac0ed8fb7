"""`find_usages`: finds the places where an installed package uses a name.

It only reads, so it may be interrupted anywhere. The usages in the files that it has finished are kept.
"""

from pathlib import Path
from typing import Annotated

from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolContext, tool
from mcpsite.tools import sources
from mcpsite.tools.occurrences import UNREADABLE, Identifier, Kind, check_identifier, may_contain, occurrences
from mcpsite.tools.packages import PackageName, source_files

MAX_TEXT_CHARS = 200
READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class Usage(BaseModel):
    """One usage of the name."""

    file: str = Field(description="from the folder that holds the package, such as `django/http/request.py`")
    line: int = Field(description="from 1")
    column: int = Field(description="from 1, in characters")
    kind: Kind
    text: str = Field(description="the line, without its indentation, cut where it is long")


class Usages(BaseModel):
    """The usages that a search has found so far."""

    package: str
    symbol: str
    files_searched: int = 0
    files_unreadable: int = Field(default=0, description="files that are no source of this version of Python")
    total: int = Field(default=0, description="all usages in the files searched, also those left out")
    usages: list[Usage] = []
    truncated: bool = Field(default=False, description="whether usages were left out: there are more than max_results")

    def add(self, found: list[Usage] | None, max_results: int) -> None:
        """Count a file and add its usages; `None` for an unreadable file."""
        self.files_searched += 1
        self.files_unreadable += found is None
        self.total += len(found or ())
        self.usages += (found or [])[: max_results - len(self.usages)]
        self.truncated = self.total > len(self.usages)


@tool(title="Find usages", cancel=CancelPolicy.INTERRUPT, time_limit=300, annotations=READ_ONLY)
def find_usages(
    symbol: Identifier,
    package: PackageName,
    ctx: ToolContext,
    max_results: Annotated[int, Field(ge=1, le=1000, description="usages to return; all are counted")] = 200,
) -> Usages:
    """Find where a name is defined, imported, called, assigned and used in an installed Python package.

    Reads the package's source on this server, without importing it. Names in strings and comments do not count. Names
    are compared by spelling, so two different methods with the same name are both found.
    """
    symbol = check_identifier(symbol)
    files = sorted(source_files(package))
    ctx.partial_result = report = Usages(package=package, symbol=symbol)
    for number, (path, name) in enumerate(files, 1):
        found = _usages(path, name, symbol)
        with ctx.shield():
            report.add(found, max_results)
        ctx.progress(number, len(files), name)
    return report


def _usages(path: Path, name: str, symbol: str) -> list[Usage] | None:
    try:
        text = sources.read(path).text
        if not may_contain(text, symbol):
            return []
        lines = text.split("\n")
        return [
            Usage(
                file=name,
                line=place.line,
                column=place.column + 1,
                kind=place.kind,
                text=lines[place.line - 1].strip()[:MAX_TEXT_CHARS],
            )
            for place in occurrences(text, symbol)
        ]
    except (*UNREADABLE, OSError):
        return None
