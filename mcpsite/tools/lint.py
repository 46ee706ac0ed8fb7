"""`lint`: checks a project's Python files with ruff, a few at a time.

It runs no code of the project and ignores its configuration, which could refer to other files. It leaves no cache.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolContext, ToolError, tool
from mcpsite.tools.projects import ProjectName, locate, python_files

logger = logging.getLogger(__name__)

FILES_AT_A_TIME = 50
MAX_FINDINGS = 500
# Isolated Python, so that a `ruff.py` in the project is not imported instead of the linter.
RUFF = (sys.executable, "-I", "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet")
READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

Rule = Annotated[str, Field(pattern=r"^[A-Z]{1,6}[0-9]{0,4}$")]


class Finding(BaseModel):
    """One problem in a file."""

    file: str = Field(description="relative to the project")
    line: int = Field(description="from 1")
    column: int = Field(description="from 1, in characters")
    code: str = Field(description="the rule, such as `F401`")
    message: str
    fixable: bool = Field(description="whether `ruff check --fix` would mend it")


class LintReport(BaseModel):
    """The findings of the linter so far."""

    project: str
    files_checked: int = 0
    files_total: int
    total: int = Field(default=0, description="all findings in the files checked, also those left out")
    by_code: dict[str, int] = Field(default={}, description="how many of each rule")
    findings: list[Finding] = []
    truncated: bool = Field(default=False, description=f"whether findings were left out: there are over {MAX_FINDINGS}")

    def add(self, finding: Finding) -> None:
        self.total += 1
        self.by_code[finding.code] = self.by_code.get(finding.code, 0) + 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)
        self.truncated = self.total > len(self.findings)


@tool(title="Lint a project", cancel=CancelPolicy.KILL, time_limit=600, annotations=READ_ONLY)
def lint(
    project: ProjectName,
    ctx: ToolContext,
    select: Annotated[
        list[Rule],
        Field(
            max_length=50,
            description="ruff's rules or prefixes, such as `F` or `E501`; its own choice if empty",
        ),
    ] = [],  # noqa: B006 - never changed
) -> LintReport:
    """Check the Python files of a project on this server with the linter ruff.

    The project's own configuration is not read, and nothing in the project is changed. Hidden folders, virtual
    environments and links are skipped.
    """
    folder = locate(project)
    files = [path.relative_to(folder).as_posix() for path in python_files(folder)]
    ctx.partial_result = report = LintReport(project=project, files_total=len(files))
    options = [f"--select={','.join(select)}"] if select else []
    for batch in _batches(files):
        _check(ctx, folder, [*options, "--", *batch], report)
        report.files_checked += len(batch)
        ctx.progress(report.files_checked, len(files), f"{report.total} findings")
    return report


def _batches(files: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(files), FILES_AT_A_TIME):
        yield files[start : start + FILES_AT_A_TIME]


def _check(ctx: ToolContext, folder: Path, arguments: list[str], report: LintReport) -> None:
    """Run ruff on some files. Raises `ToolError` for an exit status other than 0 and 1."""
    done = ctx.run([*RUFF, "--output-format=json-lines", *arguments], cwd=folder, on_line=_reader(folder, report))
    if done.returncode not in (0, 1):
        logger.error("ruff ended with %s: %s", done.returncode, done.output)
        raise ToolError("The linter refused: are all rules in `select` rules of ruff?")


def _reader(folder: Path, report: LintReport) -> Callable[[str], None]:
    """Return a function that receives ruff's output. A long line comes in pieces; the last one has a line end."""
    pieces: list[str] = []

    def read(piece: str) -> None:
        pieces.append(piece)
        if piece.endswith("\n"):
            line = "".join(pieces)
            pieces.clear()
            if line.startswith("{"):
                report.add(_finding(folder, json.loads(line)))

    return read


def _finding(folder: Path, found: dict[str, Any]) -> Finding:
    return Finding(
        file=Path(found["filename"]).relative_to(folder).as_posix(),
        line=found["location"]["row"],
        column=found["location"]["column"],
        code=found["code"] or "syntax",
        message=found["message"],
        fixable=found["fix"] is not None,
    )
