"""Supervision of an idle site: few queries, and a round as soon as there is something to do."""

from collections.abc import Callable

import pytest
from django.db import connections

from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.supervision import idle
from mcp_app.lifecycle.supervision.idle import SupervisionTurns
from mcp_app.states import ProcessRole
from tests.support import rows

pytestmark = [pytest.mark.usefixtures("process"), pytest.mark.django_db(databases="__all__", transaction=True)]


@pytest.fixture
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
def rounds(work: Work) -> SupervisionTurns:
    """The turns of a process after its first round, which always takes place."""
    made = SupervisionTurns(work.supervise, work.is_held)
    assert made.take()
    return made


def test_an_idle_site_takes_one_statement_and_then_none(
    rounds: SupervisionTurns, work: Work, django_assert_num_queries
) -> None:
    with django_assert_num_queries(1, connection=connections[settings.DATABASE]):
        assert not rounds.take()
    with django_assert_num_queries(0, connection=connections[settings.DATABASE]):
        assert not rounds.take()
    assert rounds.is_resting
    assert work.rounds == 1


def test_an_open_request_is_supervised_at_every_turn(rounds: SupervisionTurns, work: Work) -> None:
    rows.queued()
    for _ in range(3):
        assert rounds.take()
    assert work.rounds == 4


def test_a_request_that_is_stored_during_a_pause_is_noticed_before_it_can_be_lost(
    rounds: SupervisionTurns, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.take()
    rows.queued()
    now = idle.time.monotonic()
    monkeypatch.setattr(idle.time, "monotonic", lambda: now + settings.LOST_AFTER)
    assert rounds.take()


def test_a_pause_is_short_even_if_processes_are_lost_only_after_a_long_time(
    configure: Callable[..., None], rounds: SupervisionTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(LOST_AFTER=600.0)
    rounds.take()
    rows.cancel(rows.queued())
    now = idle.time.monotonic()
    monkeypatch.setattr(idle.time, "monotonic", lambda: now + idle.LONGEST_REST)
    assert rounds.take()


def test_a_process_that_holds_work_is_not_idle(rounds: SupervisionTurns, work: Work) -> None:
    rounds.take()
    work.held = True
    assert not rounds.is_resting
    assert rounds.take()


def test_old_rows_are_deleted_while_the_site_is_idle(rounds: SupervisionTurns, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds.take()
    now = idle.time.monotonic()
    monkeypatch.setattr(idle.time, "monotonic", lambda: now + idle.CHORES_SECONDS)
    assert rounds.take()


def test_an_idle_process_sends_heartbeats_often_enough_to_count_as_alive(
    rounds: SupervisionTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.take()
    beaten_at = idle.time.monotonic()
    assert not rounds.is_beat_due(beaten_at)
    half = settings.LOST_AFTER / 2
    monkeypatch.setattr(idle.time, "monotonic", lambda: beaten_at + half - settings.HEARTBEAT_INTERVAL / 2)
    assert rounds.is_beat_due(beaten_at)
