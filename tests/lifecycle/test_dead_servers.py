"""Calls whose clients waited in a server process of this host that was killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest

from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.supervision import dead_servers
from mcp_app.lifecycle.supervision.dead_servers import LocalServers
from mcp_app.models import Process
from mcp_app.states import Cause, ProcessRole, Status
from tests.support import rows


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def server(program: subprocess.Popen[bytes]) -> Identity:
    """A server process with a fresh heartbeat and the process id of that program."""
    identity = Identity(ProcessRole.SERVER, pid=program.pid)
    processes.beat(identity)
    return identity


def kill(program: subprocess.Popen[bytes]) -> None:
    program.kill()
    program.wait(30)


@pytest.mark.fault("I5")
def test_I5_calls_of_a_killed_server_are_cancelled_while_its_heartbeat_is_fresh(program, server, worker):
    queued, running = rows.queued(server=server.boot_id), rows.running(worker, server=server.boot_id)
    other = rows.queued(server=rows.alive(ProcessRole.SERVER))
    in_session = rows.queued(server=server.boot_id, session=uuid4(), protocol_version="2025-11-25")
    of_nobody = rows.queued()  # as a task is
    local_servers = LocalServers()
    local_servers.cancel_calls_of_dead()
    assert rows.fresh(queued).status == Status.QUEUED
    kill(program)
    local_servers.cancel_calls_of_dead()
    assert (rows.fresh(queued).status, rows.fresh(queued).cancel_cause) == (Status.CANCELLED, Cause.LOST_SERVER)
    assert rows.fresh(running).cancel_cause == Cause.LOST_SERVER
    assert {rows.fresh(row).status for row in (other, in_session, of_nobody)} == {Status.QUEUED}
    assert Process.objects.get(pk=server.boot_id).stopped_at is not None
    local_servers.cancel_calls_of_dead()
    dead_servers.cancel_calls_of_dead_servers()
    assert [rows.outcomes(row) for row in (queued, running)] == [["accepted"]] * 2


@pytest.mark.fault("I5")
def test_I5_calls_that_outlive_their_connection_outlive_their_server_too(program, server, configure):
    configure(SESSIONLESS_DISCONNECT_CANCELS=False)
    legacy = rows.queued(server=server.boot_id, protocol_version="2025-11-25")
    kill(program)
    dead_servers.cancel_calls_of_dead_servers()
    assert rows.fresh(legacy).status == Status.QUEUED


def test_a_process_that_has_ended_and_was_not_waited_for_is_gone(program, server):
    assert not processes.is_gone(server.boot_id, program.pid)
    program.kill()
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    assert processes.is_gone(server.boot_id, program.pid)


def test_a_process_of_another_host_is_not_gone_whatever_its_number(program, server):
    kill(program)
    elsewhere = Identity(ProcessRole.SERVER, boot_id=uuid4(), pid=program.pid)
    processes.beat(elsewhere)
    call = rows.queued(server=elsewhere.boot_id)
    dead_servers.cancel_calls_of_dead_servers()
    assert rows.fresh(call).status == Status.QUEUED
