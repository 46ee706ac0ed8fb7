"""Whatever a tool started is found and killed, however it hid."""

import subprocess
import sys
import uuid

import pytest

from mcp_app.execution import processes

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


def start(code):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE)


@pytest.mark.parametrize("code", [GRANDCHILD, DOUBLE_FORK], ids=["grandchild", "double fork"])
def test_marked_processes_die_with_all_they_started(code):
    request_id = uuid.uuid4()
    with processes.marked(request_id):
        parent = start(code)
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


def test_the_marker_is_gone_after_the_block():
    with processes.marked(uuid.uuid4()):
        pass
    child = start(f"import os; print('{processes.MARKER}' in os.environ)")
    assert child.communicate()[0] == b"False\n"
