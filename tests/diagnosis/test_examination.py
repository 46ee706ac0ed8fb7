"""Running checks: in order, each with a time limit, also after one has failed."""

import threading
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connections

from mcp_app.diagnosis.checks import CHECKS
from mcp_app.diagnosis.examination import DiagnosticCheck, Finding, SharedFacts, State, examine, failed, ok, within
from tests.diagnosis.conftest import only, shared


def fine(shared: SharedFacts) -> list[Finding]:
    return [ok("fine", "It is.")]


def broken(shared: SharedFacts) -> Iterator[Finding]:
    raise OperationalError("no such table\nLINE 1")


def test_a_check_that_raises_is_a_finding_and_the_next_check_runs() -> None:
    first, second = examine([DiagnosticCheck("broken", broken, "Mend it."), DiagnosticCheck("fine", fine, "")])
    assert (first.name, first.state, first.remedy) == ("broken", State.FAILED, "Mend it.")
    assert first.found.endswith(": OperationalError: no such table.")
    assert second.state == State.OK


def test_a_check_that_hangs_is_abandoned_after_its_time_limit() -> None:
    let_go = threading.Event()

    def hanging(shared: SharedFacts) -> list[Finding]:
        let_go.wait(60)
        return []

    try:
        first, second = examine(
            [DiagnosticCheck("hanging", hanging, "Wake it."), DiagnosticCheck("fine", fine, "")], seconds=0.2
        )
        assert (first.name, first.state, first.remedy) == ("hanging", State.FAILED, "Wake it.")
        assert all(fact in first.found for fact in ("No answer", "0.2 s"))
        assert second.state == State.OK
    finally:
        let_go.set()


def test_a_check_is_skipped_if_a_check_that_it_needs_has_failed() -> None:
    ground = DiagnosticCheck("ground", lambda shared: [failed("ground", "It is gone.", "Lay it.")], "")
    house = DiagnosticCheck("house", broken, "", frozenset({"ground"}))
    _, finding = examine([ground, house])
    assert finding.state == State.WARNING
    assert all(fact in finding.found for fact in ("Not checked", " ground"))
    assert " ground " in finding.remedy


def test_a_database_error_is_not_reported_if_migrations_are_missing() -> None:
    missing = DiagnosticCheck(
        "migrations", lambda shared: [failed("migrations", "3 are not applied.", "Apply them.")], ""
    )
    _, finding = examine([missing, DiagnosticCheck("rows", broken, "")])
    assert finding.state == State.WARNING
    assert all(fact in finding.found for fact in ("Not checked", " migrations"))


def test_a_check_closes_its_database_connections() -> None:
    made = []

    def ask() -> None:
        connections["default"].ensure_connection()
        made.append(connections["default"])

    within(5, ask)
    assert made[0].connection is None
    assert made[0] is not connections["default"]


def test_every_check_has_the_name_of_its_findings() -> None:
    for check in CHECKS:
        for finding in check.find(shared()):
            assert finding.name == check.name
            assert finding.found.endswith(".")
            assert (finding.remedy == "") == (finding.state == State.OK)


def test_checks_run_after_the_checks_that_they_need() -> None:
    before: set[str] = set()
    for check in CHECKS:
        assert check.needs <= before, check.name
        before.add(check.name)


@pytest.mark.parametrize("error", [ValueError(""), ValueError("\n\nwhat?.\n")], ids=["empty", "lines"])
def test_an_error_is_shown_on_one_line(error: ValueError) -> None:
    def find(shared: SharedFacts) -> Iterator[Finding]:
        raise error

    finding = only(examine([DiagnosticCheck("it", find, "Mend it.")]), State.FAILED)
    assert finding.found.endswith((": ValueError: ValueError.", ": ValueError: what?."))
    assert "\n" not in finding.found
