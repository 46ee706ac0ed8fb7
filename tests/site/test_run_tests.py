"""`run_tests`: pytest on a project."""

import json

from tests.execution.site import eventually
from tests.site.folders import contents

MIXED = """
import os, pytest

def check_good(): print("said")
def check_bad(): assert 1 == 2
@pytest.mark.skip
def check_left_out(): pass
def check_nothing_of_the_site_is_seen():
    assert not [name for name in os.environ if name.startswith(("MCPSITE_", "DJANGO_"))]
def check_deselected(): pass
"""
CONFIGURATION = """
[tool.pytest.ini_options]
python_files = "checks.py"
python_functions = "check_*"
"""
WAITING = """
import pathlib, time

def test_first(): pass
def test_waits():
    pathlib.Path({ready!r}).touch()
    time.sleep(600)
"""


def test_the_sample_projects_tests_pass_and_leave_nothing(example):
    """The tests do not read the configuration of a parent folder either."""
    example.result("lint", project="sample")
    before = contents(example.projects / "sample")
    (example.projects / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    request_id = example.begin("run_tests", project="sample")
    result = example.site.ended(request_id, within=45)["result"]["structuredContent"]
    assert (result["exit_code"], result["counts"]) == (0, {"passed": 3})
    assert contents(example.projects / "sample") == before
    lines = [data["message"] for data in example.progress(request_id)]
    assert any("test_inventory.py::test_what_arrived_is_counted PASSED" in line for line in lines)


def test_what_failed_is_counted_and_shown_by_the_projects_own_configuration(example, project):
    folder = project({"checks.py": MIXED, "pyproject.toml": CONFIGURATION})
    result = example.result("run_tests", project=folder.name, keyword="not deselected")
    assert result["exit_code"] == 1
    assert result["counts"] == {"failed": 1, "passed": 2, "skipped": 1, "deselected": 1}
    assert "assert 1 == 2" in result["output"]


def test_cancelled_tests_die_and_what_they_printed_is_kept(example, project, tmp_path):
    ready = tmp_path / "ready"
    folder = project({"test_waiting.py": WAITING.format(ready=str(ready))})
    before = contents(folder)
    request_id = example.begin("run_tests", project=folder.name)
    eventually(ready.exists, "the project's test")
    eventually(lambda: any("test_first PASSED" in said["message"] for said in example.progress(request_id)), "its line")
    ended = example.stop(request_id)
    assert ended["status"] == "cancelled"
    found = json.loads(ended["partial_result"]["content"][0]["text"])
    assert "test_first PASSED" in found["output"]
    assert found["exit_code"] is None
    assert contents(folder) == before
