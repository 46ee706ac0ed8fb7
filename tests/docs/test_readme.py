"""Follows the README's first steps: its command in a clone of this repository, then the first call."""

import json
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


def test_both_lines_make_the_same_environment_and_ci_runs_that_of_the_tests() -> None:
    serve, tests = snippet("README.md#run-it").text.strip(), snippet("README.md#run-it:2").text.strip()
    assert serve.split(" && ")[:-1] == tests.split(" && ")[:-1]
    [pattern] = re.findall(r"grep -E '([^']+)' README.md", (ROOT / ".ci" / "run").read_text())
    assert re.search(pattern, tests)


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_the_example_site_is_served_and_called(clone: Path, tmp_path: Path) -> None:
    [*_, serve] = snippet("README.md#run-it").text.strip().split(" && ")
    call = snippet("README.md#a-first-call").text
    foreign = ("MCPSITE_", "DJANGO_", "CELERY_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment[MARKER] = str(clone)
    try:
        program = Program(["bash", "-c", f"exec {serve} --port=0"], environment, tmp_path / "log", cwd=clone)
        program.says("READY", PATIENCE)
        endpoint = program.says(r"MCP endpoint +(\S+)")[1]
        assert "http://127.0.0.1:8000/mcp" in call
        said = subprocess.run(
            ["bash", "-c", call.replace("http://127.0.0.1:8000/mcp", endpoint)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        ).stdout
        *told, answer = (json.loads(line.removeprefix("data: ")) for line in said.splitlines() if line[:6] == "data: ")
        assert [each["params"]["progressToken"] for each in told] == ["first"] * len(told)
        assert {each["params"]["total"] for each in told} == {10}
        assert answer["result"]["content"][0]["text"] == "Counted down 10 s."
        program.interrupt()
        assert program.wait(PATIENCE) == 0
        assert (clone / ".mcpsite-data").is_dir()
        eventually(lambda: not programs.marked(f"{MARKER}={clone}"), "no process is left", PATIENCE)
    finally:
        programs.end_all(programs.marked(f"{MARKER}={clone}"))
