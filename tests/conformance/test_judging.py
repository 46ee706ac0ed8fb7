"""The results that count as problems in addition to the failures that the conformance suite itself reports."""

import json
from pathlib import Path

import pytest

from tests.conformance.suite import PASSED_OVER, UNSCORED, Check, judge, read

REVISION = "2025-11-25"


def result(*statuses: str) -> list[Check]:
    return [Check(f"check-{number}", status, "why") for number, status in enumerate(statuses)]


def good() -> dict[str, list[Check]]:
    """Return the results of a run in which every scenario that is not scored succeeded."""
    results = {scenario: result("SUCCESS", "INFO") for scenario in UNSCORED[REVISION]}
    results["server-sse-polling"].append(Check("server-sse-disconnect-resume", "SUCCESS", ""))
    return results


def test_nothing_is_wrong_with_what_succeeded() -> None:
    assert list(judge(REVISION, {**good(), "ping": result("SUCCESS")})) == []


@pytest.mark.parametrize("status", ["WARNING", "SKIPPED"])
def test_what_the_suite_only_warns_of_or_skips_is_wrong(status: str) -> None:
    found = judge(REVISION, {**good(), "ping": result("SUCCESS", status)})
    assert list(found) == [f"ping: check-1: {status} why"]


def test_a_failure_is_judged_here_only_where_the_suite_does_not_score() -> None:
    results = {**good(), "ping": result("SUCCESS", "FAILURE"), "json-schema-2020-12": result("SUCCESS", "FAILURE")}
    assert list(judge(REVISION, results)) == ["json-schema-2020-12: check-1: FAILURE why"]


def test_a_scenario_that_did_not_run_is_wrong() -> None:
    results = good()
    del results["server-session-lifecycle"]
    assert list(judge(REVISION, results)) == ["server-session-lifecycle did not run"]


def test_a_scenario_without_a_success_is_wrong_but_for_the_one_that_always_skips_itself() -> None:
    results = {**good(), "ping": result("INFO"), PASSED_OVER: result("SKIPPED")}
    assert list(judge(REVISION, results)) == ["ping found nothing to look at"]


def test_polling_in_which_the_server_sent_nobody_away_is_wrong() -> None:
    results = {**good(), "server-sse-polling": result("SUCCESS")}
    assert list(judge(REVISION, results)) == ["server-sse-polling found nothing to look at"]


def test_results_are_read_by_scenario(tmp_path: Path) -> None:
    folder = tmp_path / "server-server-sse-polling-2026-11-22T02-49-08-355Z"
    folder.mkdir()
    (tmp_path / "server-ping-2026-11-22T02-49-08-355Z").mkdir()
    checks = [{"id": "a", "status": "SUCCESS"}, {"id": "b", "status": "WARNING", "errorMessage": "why"}]
    (folder / "checks.json").write_text(json.dumps(checks))
    assert read(tmp_path) == {"server-sse-polling": [Check("a", "SUCCESS", ""), Check("b", "WARNING", "why")]}
