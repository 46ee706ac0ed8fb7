"""Ownership of a row: a claim whose response was lost, and the fence after which a child no longer owns its row."""

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

from mcp_app.catalogue.errors import ToolError
from mcp_app.execution.pools.prefork import PreforkLadder
from mcp_app.execution.process.child import Child, worker_identity
from mcp_app.execution.process.slots import ProcessSlot
from mcp_app.execution.process.watcher import Watcher
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.run import runner
from mcp_app.execution.stopping.interrupt import SignalInterrupter
from mcp_app.execution.stopping.termination import Termination
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Cause, ProcessRole, Stage
from tests.support import brokers, rows

pytestmark = pytest.mark.django_db(databases="__all__")


@dataclass
class NoPool:
    """A pool that only records the processes that it would terminate."""

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
    at_once = SimpleNamespace(call_in_this_thread=lambda function: function())
    monkeypatch.setattr(transitions, "claim", away)
    with pytest.raises(OperationalError):
        runner.claim(replace(here, slot=lambda: slot, recorder=at_once), rows.queued().pk)
    assert left == [True]


@pytest.mark.fault("C10")
def test_what_another_child_claimed_is_not_run_again(here):
    row = rows.queued()
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid + 1)
    assert claim(here, row.pk) is None


def test_a_worker_without_the_tool_says_that_it_must_be_restarted(caplog):
    row = rows.queued(tool="brand_new")
    with pytest.raises(ToolError, match=r"no tool brand_new\b.*restarted"):
        runner.bind_tool(row, None)
    assert all(fact in caplog.text for fact in (str(row.pk), "no tool brand_new"))


@pytest.mark.fault("I5")
def test_I5_a_call_is_not_claimed_once_the_server_process_of_its_client_was_killed(here):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        server = Identity(ProcessRole.SERVER, pid=program.pid)
        processes.beat(server)
        first, second = rows.queued(server=server.boot_id), rows.queued(server=server.boot_id)
        assert claim(here, first.pk) is not None
        program.kill()
    assert claim(here, second.pk) is None
    assert rows.fresh(second).cancel_cause == Cause.LOST_SERVER


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
    at_once = SimpleNamespace(call_in_this_thread=lambda function: function())
    row = rows.queued()
    here.claimed.add(row.pk)
    with pytest.raises(Ignore):
        runner.claim(replace(here, recorder=at_once), row.pk)
    assert brokers.waiting(row.queue) == [str(row.pk)]
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid)
    with pytest.raises(Ignore):
        runner.claim(replace(here, recorder=at_once), row.pk)
    assert brokers.waiting(row.queue) == []
