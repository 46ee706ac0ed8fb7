"""The looks in their order: each bounded, none that fails keeps the others from being told."""

import threading
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connections

from mcp_app.diagnosis.examination import Look, Seen, examine, within
from mcp_app.diagnosis.findings import Finding, State, failed, ok
from mcp_app.diagnosis.looks import LOOKS
from tests.diagnosis.conftest import only, seen


def fine(seen: Seen) -> list[Finding]:
    return [ok("fine", "It is.")]


def broken(seen: Seen) -> Iterator[Finding]:
    raise OperationalError("no such table\nLINE 1")


def test_a_look_that_fails_is_a_finding_and_the_next_is_looked_at() -> None:
    first, second = examine([Look("broken", broken, "Mend it."), Look("fine", fine, "")])
    assert first == failed("broken", "It could not be looked at: OperationalError: no such table.", "Mend it.")
    assert second.state == State.OK


def test_a_look_that_does_not_end_is_left_behind_after_its_time() -> None:
    let_go = threading.Event()

    def hanging(seen: Seen) -> list[Finding]:
        let_go.wait(60)
        return []

    try:
        first, second = examine([Look("hanging", hanging, "Wake it."), Look("fine", fine, "")], seconds=0.2)
        assert first == failed("hanging", "No answer within 0.2 s.", "Wake it.")
        assert second.state == State.OK
    finally:
        let_go.set()


def test_what_stands_on_what_failed_is_not_looked_at() -> None:
    ground = Look("ground", lambda seen: [failed("ground", "It is gone.", "Lay it.")], "")
    house = Look("house", broken, "", frozenset({"ground"}))
    _, finding = examine([ground, house])
    assert (finding.state, finding.found) == (State.WARNING, "Not looked at: it needs ground.")
    assert finding.remedy == "Mend ground first."


def test_rows_that_cannot_be_read_are_no_news_where_migrations_are_missing() -> None:
    missing = Look("migrations", lambda seen: [failed("migrations", "3 are not applied.", "Apply them.")], "")
    _, finding = examine([missing, Look("rows", broken, "")])
    assert (finding.state, finding.found) == (State.WARNING, "Not looked at: it needs migrations.")


def test_a_look_leaves_no_database_connection_of_its_own_open() -> None:
    made = []

    def ask() -> None:
        connections["default"].ensure_connection()
        made.append(connections["default"])

    within(5, ask)
    assert made[0].connection is None
    assert made[0] is not connections["default"]


def test_every_look_is_called_as_its_findings_are() -> None:
    for look in LOOKS:
        for finding in look.find(seen()):
            assert finding.name == look.name
            assert finding.found.endswith(".")
            assert (finding.remedy == "") == (finding.state == State.OK)


def test_what_looks_stand_on_is_looked_at_before_them() -> None:
    before: set[str] = set()
    for look in LOOKS:
        assert look.needs <= before, look.name
        before.add(look.name)


@pytest.mark.parametrize("error", [ValueError(""), ValueError("\n\nwhat?.\n")], ids=["empty", "lines"])
def test_an_error_is_told_in_one_line(error: ValueError) -> None:
    def find(seen: Seen) -> Iterator[Finding]:
        raise error

    finding = only(examine([Look("it", find, "Mend it.")]), State.FAILED)
    assert finding.found in (
        "It could not be looked at: ValueError: ValueError.",
        "It could not be looked at: ValueError: what?.",
    )
