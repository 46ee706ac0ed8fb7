"""Supervision where nothing happens: one question now and then, and a round as soon as there is something to see to."""

from collections.abc import Callable

import pytest
from django.db import connections

from mcp_app.conf import settings
from mcp_app.lifecycle import processes, quiet
from mcp_app.lifecycle.processes import Identity
from mcp_app.lifecycle.quiet import Rounds
from mcp_app.states import ProcessRole
from tests.lifecycle import rows

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture(autouse=True)
def process() -> None:
    processes.beat(Identity(ProcessRole.WORKER))


class Work:
    def __init__(self) -> None:
        self.rounds = 0
        self.held = False

    def supervise(self) -> None:
        self.rounds += 1

    def is_held(self) -> bool:
        return self.held


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def rounds(work: Work) -> Rounds:
    """After its first round, which is made whatever there is."""
    made = Rounds(work.supervise, work.is_held)
    assert made.take()
    return made


def test_where_nothing_happens_one_statement_is_asked_and_then_none(
    rounds: Rounds, work: Work, django_assert_num_queries
) -> None:
    with django_assert_num_queries(1, connection=connections[settings.DATABASE]):
        assert not rounds.take()
    with django_assert_num_queries(0, connection=connections[settings.DATABASE]):
        assert not rounds.take()
    assert rounds.rests
    assert work.rounds == 1


def test_an_open_request_is_supervised_at_every_turn(rounds: Rounds, work: Work) -> None:
    rows.queued()
    for _ in range(3):
        assert rounds.take()
    assert work.rounds == 4


def test_what_is_stored_while_it_is_quiet_is_seen_before_it_can_be_lost(
    rounds: Rounds, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.take()
    rows.queued()
    now = quiet.time.monotonic()
    monkeypatch.setattr(quiet.time, "monotonic", lambda: now + settings.LOST_AFTER)
    assert rounds.take()


def test_what_begins_and_ends_while_it_is_quiet_is_seen_soon_where_a_site_is_patient(
    configure: Callable[..., None], rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(LOST_AFTER=600.0)
    rounds.take()
    rows.cancel(rows.queued())
    now = quiet.time.monotonic()
    monkeypatch.setattr(quiet.time, "monotonic", lambda: now + quiet.LONGEST_REST)
    assert rounds.take()


def test_who_holds_work_does_not_rest(rounds: Rounds, work: Work) -> None:
    rounds.take()
    work.held = True
    assert not rounds.rests
    assert rounds.take()


def test_old_things_are_forgotten_where_nothing_happens_either(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds.take()
    now = quiet.time.monotonic()
    monkeypatch.setattr(quiet.time, "monotonic", lambda: now + quiet.CHORES_SECONDS)
    assert rounds.take()


def test_a_heart_that_rests_beats_often_enough_for_everybody_who_listens_for_it(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.take()
    beaten_at = quiet.time.monotonic()
    assert not rounds.is_beat_due(beaten_at)
    half = settings.LOST_AFTER / 2
    monkeypatch.setattr(quiet.time, "monotonic", lambda: beaten_at + half - settings.HEARTBEAT_INTERVAL / 2)
    assert rounds.is_beat_due(beaten_at)
