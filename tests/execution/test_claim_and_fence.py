"""Whose a row is: the claim whose answer was lost, and the fence behind which a child no longer stands."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from uuid import UUID

import psutil
import pytest

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
from mcp_app.states import Stage
from tests.lifecycle import rows

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


def test_a_claim_whose_answer_was_lost_is_still_this_childs(here):
    row = rows.queued()
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid)
    again = runner._claim(here, row.pk)
    assert again is not None
    assert again.pk == row.pk


@pytest.mark.fault("C10")
def test_what_another_child_claimed_is_not_run_again(here):
    row = rows.queued()
    transitions.claim(row.pk, worker=worker_identity().boot_id, pid=here.pid + 1)
    assert runner._claim(here, row.pk) is None


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
    assert runner._claim(here, row.pk) is not None
    assert runner._claim(here, row.pk) is None
    assert here.claimed == {row.pk}
    assert runner._claim(here, rows.fresh(row).pk) is None


def test_a_claim_that_was_refused_is_nobodys(here):
    assert runner._claim(here, UUID(int=0)) is None
    assert here.claimed == set()
