"""`lint`: ruff on a project."""

import json
from pathlib import Path
from shutil import copytree, ignore_patterns

import django

from tests.site.folders import contents, held, needs_leases

FINDINGS = {"a.py": "import os\n", "b.py": "x = (\n", "pkg/c.py": "def f():\n    return undefined\n"}


def test_the_sample_project_has_one_thing_to_mend(example):
    found = example.result("lint", project="sample")
    assert (found["total"], found["by_code"], found["truncated"]) == (1, {"F401": 1}, False)
    assert found["files_checked"] == found["files_total"] == 3
    (finding,) = found["findings"]
    assert (finding["file"], finding["line"], finding["code"]) == ("stock/inventory.py", 3, "F401")
    assert finding["fixable"]


def test_findings_are_those_of_the_rules_asked_for(example, project):
    folder = project(FINDINGS)
    found = example.result("lint", project=folder.name)
    assert found["by_code"] == {"F401": 1, "F821": 1, "invalid-syntax": 1}
    only = example.result("lint", project=folder.name, select=["F8"])
    assert only["by_code"] == {"F821": 1, "invalid-syntax": 1}
    assert example.refusal("lint", project=folder.name, select=["QQQ1"]).startswith("The linter refused")


def test_a_project_cannot_lead_the_linter(example, project):
    """The linter neither runs the project's code nor reads its configuration, and leaves no files."""
    traps = {"ruff.py": "raise SystemExit(2)\n", "ruff.toml": "extend = '/etc/passwd'\n", ".hidden/d.py": "import os\n"}
    folder = project(traps | {"--fix.py": "import os\n", "venv/pyvenv.cfg": "", "venv/e.py": "import os\n"})
    (folder / "link.py").symlink_to(Path(__file__))
    before = contents(folder)
    found = example.result("lint", project=folder.name)
    assert {finding["file"] for finding in found["findings"]} == {"--fix.py"}
    assert contents(folder) == before


@needs_leases
def test_a_cancelled_lint_kills_the_linter_and_keeps_its_findings(example):
    folder = example.projects / "big"
    copytree(Path(django.__path__[0], "db"), folder, ignore=ignore_patterns("__pycache__"))
    before = contents(folder)
    with held(folder / "models" / "sql" / "where.py") as last:
        request_id = example.begin("lint", project="big", select=["ANN001"])
        last.await_opening()
        ended = example.stop(request_id)
    assert ended["status"] == "cancelled"
    found = json.loads(ended["partial_result"]["content"][0]["text"])
    assert 0 < found["files_checked"] < found["files_total"]
    assert found["by_code"]["ANN001"] == found["total"] > len(found["findings"]) > 0
    assert found["truncated"]
    assert contents(folder) == before
