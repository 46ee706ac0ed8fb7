"""`run_tests`: runs a project's tests with pytest, in a process of their own, for staff users.

The tests get none of this site's settings. Pytest leaves no caches and no bytecode in the project.
"""

import os
import re
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolContext, tool
from mcpsite.access import require_staff
from mcpsite.tools.projects import ProjectName, locate

TAIL_LINES: Final = 100
MAX_LINE_CHARS: Final = 1000
ENVIRONMENT: Final = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
RUNS_CODE = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)

_SITE_VARIABLES: Final = ("MCPSITE_", "DJANGO_", "PYTEST_", "CELERY_")
_CONFIGURATIONS: Final = (  # in pytest's order
    ("pytest.toml", ""), (".pytest.toml", ""), ("pytest.ini", ""), (".pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest"), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]"),
)  # fmt: skip
_SUMMARY: Final = re.compile(r"^=* ?(?P<counts>.+) in \d+\.\d+s(?: \(\d.*\))? ?=*$")
_COUNT: Final = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed|xpassed|deselected)")

Keyword = Annotated[
    str,
    Field(max_length=200, pattern="^([^-].*)?$", description="the names of tests to run, as pytest's -k; all if empty"),
]


class PytestRun(BaseModel):
    """The result of a test run. After a cancellation it contains only the output so far, without an exit code."""

    project: str
    exit_code: int | None = Field(
        default=None, description="0: all passed, 1: some failed, 4: wrong use, 5: none found"
    )
    counts: dict[str, int] = Field(default={}, description="how many passed, failed, were skipped …")
    output: str = Field(default="", description=f"the last {TAIL_LINES} lines of the output")


@tool(title="Run a project's tests", cancel=CancelPolicy.KILL, time_limit=1800, annotations=RUNS_CODE)
def run_tests(
    project: ProjectName,
    ctx: ToolContext,
    keyword: Keyword = "",
) -> PytestRun:
    """Run the tests of a project on this server with pytest and return their results. Only staff may call this.

    The output is reported as progress while the tests run.
    """
    require_staff(ctx)
    folder = locate(project)
    ctx.partial_result = report = PytestRun(project=project)
    tail: deque[str] = deque(maxlen=TAIL_LINES)

    def keep(line: str) -> None:
        tail.append(line[:MAX_LINE_CHARS].rstrip("\n"))
        report.output = "\n".join(tail)

    done = ctx.run(_command(folder, keyword), cwd=folder, env=ENVIRONMENT, on_line=keep, progress=True)
    report.exit_code, report.counts = done.returncode, _counts(tail)
    return report


def _command(folder: Path, keyword: str) -> list[str]:
    """Return the command for pytest on a folder. Its options keep pytest from using configuration above the folder."""
    pytest = [sys.executable, "-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider"]
    place = [f"--rootdir={folder}", f"--confcutdir={folder}", f"--config-file={_configuration(folder)}"]
    return [*_without_site_variables(), *pytest, *place, *(["-k", keyword] if keyword else [])]


def _without_site_variables() -> list[str]:
    """Return the start of a command whose environment has no settings of this site."""
    names = [name for name in os.environ if name.startswith(_SITE_VARIABLES)]
    return ["env", *(option for name in names for option in ("-u", name))]


def _configuration(folder: Path) -> str:
    for name, section in _CONFIGURATIONS:
        path = folder / name
        if path.is_file() and section in path.read_text(errors="replace"):
            return name
    return os.devnull


def _counts(lines: Sequence[str]) -> dict[str, int]:
    """Return the counts in pytest's last line, or an empty result if there is none."""
    for line in reversed(lines):
        if (summary := _SUMMARY.match(line)) is not None:
            return {word: int(number) for number, word in _COUNT.findall(summary["counts"])}
    return {}
