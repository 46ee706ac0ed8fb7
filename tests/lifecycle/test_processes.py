"""Which processes count as alive."""

import os
import subprocess
import sys
from uuid import UUID, uuid4

import pytest

from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
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


@pytest.fixture
def ended() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        assert process.wait(30) == 0
    return process.pid


@pytest.fixture
def elsewhere() -> UUID:
    """The boot id of a process whose pid namespace is another one, as in a container."""
    code = "import django; django.setup(); from mcp_app.lifecycle.liveness import processes; print(processes.new())"
    command = ["unshare", *(() if os.geteuid() == 0 else ("--map-root-user",)), "--pid", "--fork", "--mount-proc"]
    try:
        made = subprocess.run(
            [*command, sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        )
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NO NAMESPACES, what another container sees was not tested: {error}")
    return UUID(made.stdout.strip())


def test_a_worker_whose_process_is_gone_is_dead_however_fresh_its_word(ended: int) -> None:
    processes.beat(Identity(ProcessRole.WORKER, pid=ended))
    assert not processes.any_alive(ProcessRole.WORKER)
    assert [each.lives for each in processes.vouched_for(ProcessRole.WORKER)] == [False]


def test_a_worker_in_another_container_lives_by_its_word_whatever_its_host_is_called(
    ended: int, elsewhere: UUID
) -> None:
    processes.beat(Identity(ProcessRole.WORKER, boot_id=elsewhere, pid=ended))
    assert processes.any_alive(ProcessRole.WORKER)
    assert [each.lives for each in processes.vouched_for(ProcessRole.WORKER)] == [True]


def test_a_worker_of_another_machine_lives_by_its_word(ended: int) -> None:
    processes.beat(Identity(ProcessRole.WORKER, boot_id=uuid4(), pid=ended))
    assert processes.any_alive(ProcessRole.WORKER)


def test_boot_ids_differ_and_say_whose_process_ids_are_meant(elsewhere: UUID) -> None:
    mine = [processes.new() for _ in range(100)]
    assert len(set(mine)) == len(mine)
    assert all(map(processes.is_numbered_here, mine))
    assert not processes.is_numbered_here(elsewhere)
