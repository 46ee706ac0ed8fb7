"""The watcher queries the named rows at once and all rows every second, and survives any error of the database."""

import math
import os
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.db import OperationalError

from mcp_app.execution.process import watcher as module
from mcp_app.execution.process.child import worker_identity
from mcp_app.execution.process.slots import ProcessSlot
from mcp_app.execution.process.watcher import Running, Watcher, child_address
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping.interrupt import SignalInterrupter
from mcp_app.execution.stopping.termination import Termination
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.requests import observation
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def watcher():
    watcher = Watcher(worker_identity(), os.getpid(), Recorder(), Termination(lambda: None, lambda: False))
    yield watcher
    watcher._socket.close()


@pytest.fixture
def running(watcher):
    """Three calls that run."""
    slot, boot_id = ProcessSlot(SignalInterrupter()), worker_identity().boot_id
    begun = [Running(rows.running(boot_id), SimpleNamespace(is_cancelled=False), slot) for _ in range(3)]
    for each in begun:
        watcher.begin(each)
    return begun


@pytest.fixture
def asked(monkeypatch) -> list[set[UUID]]:
    """The requests of each query for cancellations."""
    asked = []
    unwanted = observation.unwanted

    def noted(request_ids):
        asked.append(set(request_ids))
        return unwanted(request_ids)

    monkeypatch.setattr(observation, "unwanted", noted)
    return asked


def look_once(watcher, *payloads: bytes) -> None:
    for payload in payloads:
        assert wakeups.hint(child_address(worker_identity().boot_id, os.getpid()), payload)
    watcher._check_calls(watcher._wait())


def test_who_is_named_is_asked_for_alone_and_all_of_them_at_first_and_once_a_second(
    watcher, running, asked, monkeypatch
):
    first, second, third = (each.row.pk for each in running)
    look_once(watcher)
    monkeypatch.setattr(module, "CHECK_INTERVAL_SECONDS", math.inf)
    look_once(watcher, second.bytes)
    look_once(watcher, first.bytes, third.bytes)
    monkeypatch.setattr(module, "CHECK_INTERVAL_SECONDS", 0.0)
    look_once(watcher, second.bytes)
    everybody = {first, second, third}
    assert asked == [everybody, {second}, {first, third}, everybody]


def test_who_hears_of_others_or_of_a_timer_alone_asks_nothing(watcher, running, asked, monkeypatch):
    look_once(watcher)
    asked.clear()
    monkeypatch.setattr(module, "CHECK_INTERVAL_SECONDS", math.inf)
    look_once(watcher, rows.running(worker_identity().boot_id).pk.bytes)
    stepped = []
    running[0].after(0, stepped.append)
    look_once(watcher)
    assert stepped == [running[0]]
    assert asked == []


def test_a_hint_that_names_nobody_or_more_of_them_than_a_socket_holds_is_a_look_at_all(
    watcher, running, asked, monkeypatch
):
    look_once(watcher)
    monkeypatch.setattr(module, "CHECK_INTERVAL_SECONDS", math.inf)
    look_once(watcher, b"!")
    look_once(watcher, *[running[0].row.pk.bytes] * wakeups.OVERFLOWS)
    assert asked == [{each.row.pk for each in running}] * 3


@pytest.mark.fault("D2")
def test_whom_it_is_known_of_is_stopped_while_the_database_is_away(watcher, running, monkeypatch):
    def away(request_ids):
        raise OperationalError("the database is away")

    monkeypatch.setattr(observation, "unwanted", away)
    stopped = []
    running[0].after(0, stopped.append)
    with pytest.raises(OperationalError):
        look_once(watcher)
    assert stopped == [running[0]]
