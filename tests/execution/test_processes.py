"""Every process that a tool started is found and killed, however it hides."""

import os
import subprocess
import sys
import uuid

import pytest

from mcp_app.execution.stopping import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the marker is read from /proc")

DOUBLE_FORK = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"])
    os._exit(0)
os.wait()
"""
GRANDCHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"


def start(code, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("code", [GRANDCHILD, DOUBLE_FORK], ids=["grandchild", "double fork"])
def test_marked_processes_die_with_all_they_started(code):
    request_id = uuid.uuid4()
    parent = start(code, **{processes.MARKER: str(request_id)})
    try:
        assert parent.stdout.readline() == b"1\n"
        found = processes.find(request_id)
        assert found
        assert set(processes.owners()) >= found
        assert processes.kill_all(request_id)
        assert not any(processes.is_alive(pid) for pid in found)
    finally:
        parent.kill()
        parent.communicate()


def test_a_process_without_the_marker_is_left_alone():
    bystander = start("print(1, flush=True); input()")
    try:
        assert bystander.stdout.readline() == b"1\n"
        assert processes.kill_all(uuid.uuid4())
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()


def test_a_fork_is_killed_although_its_worker_was_started_by_a_tool_of_another_site():
    """A fork shows the environment with which its worker was started."""
    code = """
import os, time, uuid
from mcp_app.execution.stopping import processes
if (fork := os.fork()) == 0:
    time.sleep(60)
    os._exit(0)
print(processes.kill_all(uuid.uuid4(), lambda: processes.descendants(os.getpid())), os.waitpid(fork, 0)[1])
"""
    environment = {**os.environ, processes.MARKER: str(uuid.uuid4())}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30)
    assert done.stdout == "True 9\n", done.stderr


def test_only_children_that_ended_some_time_ago_are_reaped(monkeypatch):
    """The code that started a child may wait for it, and gets its exit status only if it was not reaped before."""
    reaper = processes.Reaper()
    child = start("raise SystemExit(3)")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    reaper.reap_abandoned()
    assert processes._dead_children() == [child.pid]
    monkeypatch.setattr(processes, "ABANDONED_SECONDS", 0.0)
    reaper.reap_abandoned()
    assert processes._dead_children() == []
    child.communicate()
