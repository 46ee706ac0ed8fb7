"""Installs the official conformance suite from npm, together with Node, runs it and reads its results.

The suite's exit status covers the requirements of a revision. Scenarios that it does not score, warnings and skipped
checks are judged here, and all of them must succeed.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
VERSION: Final = "0.2.0-alpha.12"
PREFIX: Final = ROOT / ".conformance"
NODE: Final = PREFIX / "node_modules/node/bin/node"
PACKAGE: Final = PREFIX / "node_modules/@modelcontextprotocol/conformance"
MINUTES: Final = 10.0
"""The time limit of a run. The suite itself limits the time of each scenario."""

UNSCORED: Final = {
    "2026-07-28": (
        "http-header-validation",
        "http-custom-header-server-validation",
        "json-schema-2020-12",
        "tasks-capability-negotiation",
        "tasks-dispatch-and-envelope",
        "tasks-lifecycle",
        "tasks-mrtr-composition",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-request-state-removal",
        "tasks-required-task-error",
        "tasks-wire-fields",
    ),
    "2025-11-25": ("json-schema-2020-12", "server-session-lifecycle", "server-sse-polling"),
}
"""The revisions that the suite has requirements for, each with the scenarios that it runs and does not score.

Together with the scored ones, these are its 65 server scenarios except for three: sep-2640-skills-directory,
-enumeration and -manifest, because this server has no skills. Older revisions are not tested, because the suite's
client always opens with 2025-11-25.
"""
PASSED_OVER: Final = "tasks-status-notifications"
"""The scenario that always skips itself. tests/acceptance/test_tasks.py tests the same behaviour."""

CONCLUSIVE: Final = {"server-sse-polling": "server-sse-disconnect-resume"}
"""Scenarios that also succeed without the behaviour that they test, each with the check that proves the behaviour."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one of the suite's checks."""

    name: str
    status: str
    message: str


def install() -> None:
    """Install the suite and Node in the folder .conformance, which Git ignores, unless this version is installed."""
    manifest = PACKAGE / "package.json"
    if manifest.exists() and json.loads(manifest.read_text())["version"] == VERSION and NODE.exists():
        return
    packages = ["node@22", f"@modelcontextprotocol/conformance@{VERSION}"]
    quietly = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", "--prefix", str(PREFIX), *quietly, *packages], cwd=ROOT, check=True)


def run(revision: str, url: str, out: Path) -> list[str]:
    """Run every scenario of a revision against the server at `url`, and return a line for each problem.

    The suite prints its own report. `out` is a folder for the results of this run.
    """
    command = [str(NODE), str(PACKAGE / "dist/index.js"), "server"]
    command += ["--url", url, "--requirements", revision, "-o", str(out)]
    ended = subprocess.run(command, cwd=ROOT, timeout=MINUTES * 60, check=False)
    problems = list(judge(revision, read(out)))
    return problems if ended.returncode == 0 else [f"the suite's exit status is {ended.returncode}", *problems]


def read(out: Path) -> dict[str, list[Check]]:
    """Return the checks of every scenario that has results."""
    found = {}
    for path in sorted(out.glob("server-*/checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name)
        checks = json.loads(path.read_text())
        found[scenario] = [Check(each["id"], each["status"], each.get("errorMessage", "")) for each in checks]
    return found


def judge(revision: str, results: dict[str, list[Check]]) -> Iterator[str]:
    """Find the problems that the suite's exit status does not cover."""
    unscored = UNSCORED[revision]
    for scenario in unscored:
        if scenario not in results:
            yield f"{scenario} did not run"
    for scenario, checks in results.items():
        if scenario == PASSED_OVER:
            continue
        bad = {"WARNING", "SKIPPED", "FAILURE"} if scenario in unscored else {"WARNING", "SKIPPED"}
        for check in checks:
            if check.status in bad:
                yield f"{scenario}: {check.name}: {check.status} {check.message}"
        succeeded = {check.name for check in checks if check.status == "SUCCESS"}
        if not succeeded or CONCLUSIVE.get(scenario, "") not in {"", *succeeded}:
            yield f"{scenario} found nothing to look at"
