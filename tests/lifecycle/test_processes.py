"""Which processes count as alive."""

import subprocess
import sys

import pytest

from mcp_app.lifecycle import processes
from mcp_app.lifecycle.processes import Identity
from mcp_app.states import ProcessRole

pytestmark = pytest.mark.django_db(databases="__all__")


def test_a_worker_is_alive_until_it_says_that_it_stops() -> None:
    worker = Identity(ProcessRole.WORKER)
    assert not processes.any_alive(ProcessRole.WORKER)
    processes.beat(worker)
    assert processes.any_alive(ProcessRole.WORKER)
    assert not processes.any_alive(ProcessRole.SERVER)
    processes.stop(worker)
    assert not processes.any_alive(ProcessRole.WORKER)


@pytest.mark.parametrize(("hostname", "alive"), [(None, False), ("elsewhere", True)])
def test_a_worker_of_this_host_whose_process_is_gone_is_dead(hostname: str | None, alive: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        assert ended.wait(30) == 0
    gone = Identity(ProcessRole.WORKER, pid=ended.pid)
    processes.beat(gone if hostname is None else Identity(ProcessRole.WORKER, pid=ended.pid, hostname=hostname))
    assert processes.any_alive(ProcessRole.WORKER) is alive
