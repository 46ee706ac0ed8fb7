"""The part of a process that belongs to one call: the whole process, or the threads that it started."""

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcp_app.execution.process.slots import ProcessSlot, ThreadSlot
from mcp_app.execution.stopping import processes
from mcp_app.execution.stopping.interrupt import SignalInterrupter
from mcp_app.execution.stopping.thread_interrupt import ThreadInterrupter

pytestmark = [
    pytest.mark.fault("A9"),
    pytest.mark.skipif(sys.platform != "linux", reason="threads' children are read from /proc"),
]
WAITS = [sys.executable, "-c", "input()"]


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(WAITS, stdin=subprocess.PIPE)


def end(*started: subprocess.Popen[bytes]) -> None:
    for each in started:
        each.kill()
        each.communicate()


def test_a_threads_slot_kills_what_its_call_started_and_nothing_else(thread):
    before, elsewhere = thread.submit(start).result(), start()
    slot = thread.submit(lambda: ThreadSlot(ThreadInterrupter())).result()
    mine = thread.submit(start).result()
    try:
        assert {each.pid for each in slot.started()} == {mine.pid}
        assert slot.kill_leftovers(uuid.uuid4(), marked=False)
        assert not processes.is_alive(mine.pid)
        assert processes.is_alive(before.pid)
        assert processes.is_alive(elsewhere.pid)
    finally:
        end(before, elsewhere, mine)


def test_a_process_is_its_calls_as_a_whole():
    started = []
    thread = threading.Thread(target=lambda: started.append(start()))
    thread.start()
    thread.join()
    try:
        slot = ProcessSlot(SignalInterrupter())
        assert started[0].pid in {each.pid for each in slot.started()}
        with slot.isolated(request_id := uuid.uuid4()):
            assert os.environ[processes.MARKER] == str(request_id)
        assert processes.MARKER not in os.environ
    finally:
        end(*started)
