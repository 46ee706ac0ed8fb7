"""Whose a row is: the claim whose answer was lost, and the fence behind which a child no longer stands."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

import psutil
import pytest
from celery.exceptions import Ignore
from django.db import OperationalError
from django.db.models.functions import Now

from mcp_app.execution import runner
from mcp_app.execution.child import Child
from mcp_app.execution.identity import worker_identity
from mcp_app.execution.interrupt import SignalInterrupter
from mcp_app.execution.prefork import PreforkLadder
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.slots import ProcessSlot
from mcp_app.execution.termination import Termination
from mcp_app.execution.watcher import Watcher
from mcp_app.lifecycle import processes, transitions
from mcp_app.models import Request
from mcp_app.states import Stage
from tests.lifecycle import brokers, rows

pytestmark = pytest.mark.django_db(databases="__all__")


@dataclass
class NoPool:
    """A pool that is not asked."""

    asked: set[int] = field(default_factory=set)

    def pids(self) -> set[int]:
        return self.asked

    def holds_work(self) -> bool:
        return True

    def terminate(self, request_id: UUID, pid: int) -> None:
        self.asked.add(pid)


@pytest.fixture
def here():
    recorder, termination = Recorder(), Termination(lambda: None, lambda: False)
    watcher = Watcher(worker_identity(), os.getpid(), recorder, termination)
    yield Child(os.getpid(), recorder, watcher, termination, lambda: ProcessSlot(SignalInterrupter()))
    watcher._socket.close()


def claim(here, request_id):
    return runner._claim(here, request_id, time.monotonic())


def test_a_claim_whose_answer_was_lost_is_still_this_childs(here):
    row = rows.queued()
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid)
    again = claim(here, row.pk)
    assert again is not None
    assert again.pk == row.pk


@pytest.mark.fault("C10")
def test_what_this_child_claimed_for_an_earlier_message_is_not_run_again(here):
    row = rows.queued()
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid)
    Request.objects.filter(pk=row.pk).update(claimed_at=Now() - timedelta(minutes=1))
    assert claim(here, row.pk) is None


@pytest.mark.fault("D2")
def test_where_it_cannot_be_found_out_whether_it_was_claimed_its_process_is_no_proof_that_it_runs(here, monkeypatch):
    def away(request_id, **options):
        raise OperationalError("the database is away")

    left = []
    slot = SimpleNamespace(leave_to_supervision=lambda: left.append(True))
    at_once = SimpleNamespace(call_here=lambda function: function())
    monkeypatch.setattr(transitions, "claim", away)
    with pytest.raises(OperationalError):
        runner.claim(replace(here, slot=lambda: slot, recorder=at_once), rows.queued().pk)
    assert left == [True]


@pytest.mark.fault("C10")
def test_what_another_child_claimed_is_not_run_again(here):
    row = rows.queued()
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid + 1)
    assert claim(here, row.pk) is None


@pytest.mark.parametrize(("killing", "status"), [(True, psutil.STATUS_STOPPED), (False, psutil.STATUS_SLEEPING)])
def test_a_child_that_moved_on_from_behind_the_fence_is_let_go(killing, status):
    identity = worker_identity()
    processes.beat(identity)
    row = rows.stopping(identity.boot_id)
    if killing:
        transitions.begin_kill(row.pk, worker=identity.boot_id)
    child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=-1, stdout=-1)
    try:
        child.stdout.readline()
        assert PreforkLadder(identity, NoPool())._hold(row.pk, child.pid) is killing
        while (now := psutil.Process(child.pid).status()) != status:
            assert now in (psutil.STATUS_RUNNING, psutil.STATUS_SLEEPING, psutil.STATUS_STOPPED)
    finally:
        child.kill()
        child.communicate()
    assert rows.fresh(row).stage == (Stage.KILL if killing else Stage.NONE)


@pytest.mark.fault("C10")
def test_what_this_process_runs_already_is_not_run_a_second_time(here):
    row = rows.queued()
    assert claim(here, row.pk) is not None
    assert claim(here, row.pk) is None
    assert here.claimed == {row.pk}
    assert claim(here, rows.fresh(row).pk) is None


def test_a_claim_that_was_refused_is_nobodys(here):
    assert claim(here, UUID(int=0)) is None
    assert here.claimed == set()


def test_a_call_that_was_answered_before_the_run_that_asked_has_left_is_sent_again(here):
    at_once = SimpleNamespace(call_here=lambda function: function())
    row = rows.queued()
    here.claimed.add(row.pk)
    with pytest.raises(Ignore):
        runner.claim(replace(here, recorder=at_once), row.pk)
    assert brokers.waiting(row.queue) == [str(row.pk)]
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid)
    with pytest.raises(Ignore):
        runner.claim(replace(here, recorder=at_once), row.pk)
    assert brokers.waiting(row.queue) == []
