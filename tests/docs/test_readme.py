"""Follows the README's first steps: its command in a clone of this repository, then the first call."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, snippet
from tests.support.site import programs
from tests.support.site.programs import Program
from tests.support.waiting import eventually

MARKER = "MCP_README"
"""The environment variable that marks all processes of a test. It contains the folder of the clone."""
PATIENCE = 120.0


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Returns a copy of this repository, with this environment instead of the one that the command would make."""
    folder = tmp_path / "clone"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def test_it_is_short_and_shows_a_tool_early() -> None:
    page = (ROOT / "README.md").read_text().partition("\n[access]: ")[0]
    assert len(words(page)) <= 450
    assert len(words(page.partition("```python\nimport time")[0])) <= 80


def words(page: str) -> list[str]:
    """Return the words of a page without its code, pictures and targets of links."""
    prose = re.sub(r"^```[^`]*^```|^ {4}.*$|!\[.*?\]\(.*?\)", "", page, flags=re.MULTILINE)
    return re.findall(r"[\w'-]+", re.sub(r"\](\[\w+\]|\([^)]*\))", "]", prose))


def test_both_lines_make_the_same_environment_and_ci_runs_that_of_the_tests() -> None:
    serve = snippet("README.md#run-the-example").text.strip()
    tests = snippet("README.md#run-the-example:3").text.strip()
    assert serve.split(" && ")[:-1] == tests.split(" && ")[:-1]
    [pattern] = re.findall(r"grep -E '([^']+)' README.md", (ROOT / ".ci" / "run").read_text())
    assert re.search(pattern, tests)


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_the_example_site_is_served_and_called(clone: Path, tmp_path: Path) -> None:
    [*_, serve] = snippet("README.md#run-the-example").text.strip().split(" && ")
    call = snippet("README.md#run-the-example:2").text
    foreign = ("MCPSITE_", "DJANGO_", "CELERY_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment[MARKER] = str(clone)
    try:
        program = Program(["bash", "-c", f"exec {serve} --port=0"], environment, tmp_path / "log", cwd=clone)
        program.says("READY", PATIENCE)
        calling = Program(["bash", "-c", f"exec {call}"], environment, tmp_path / "call", cwd=clone)
        assert calling.wait(PATIENCE) == 0
        assert "Counted down 10 s." in calling.output()
        left = Program(["bash", "-c", f"exec {call}"], environment, tmp_path / "left", cwd=clone)
        left.says(r"[1-9] of 10", PATIENCE)
        left.interrupt()
        assert left.wait(PATIENCE) != 0
        assert "cancelled" in left.output()
        program.interrupt()
        assert program.wait(PATIENCE) == 0
        assert (clone / ".mcpsite-data").is_dir()
        eventually(lambda: not programs.marked(f"{MARKER}={clone}"), "no process is left", PATIENCE)
    finally:
        programs.end_all(programs.marked(f"{MARKER}={clone}"))
