"""What a thread of a server waits for does not keep its process."""

import asyncio
import subprocess
import sys
import threading

from mcp_app.transport.daemon_threads import DaemonThreads

ONE_HANGS = """
import asyncio, threading
from mcp_app.transport.daemon_threads import DaemonThreads

async def main():
    threads = DaemonThreads("stuck", 1)
    begun = threading.Event()
    hanging = threads.start(lambda: (begun.set(), threading.Event().wait()))
    assert begun.wait(20)
    print("left", await threads.close(0.1))
    hanging.cancel()

asyncio.run(main())
"""


def test_a_thread_that_hangs_does_not_keep_its_process():
    ended = subprocess.run([sys.executable, "-c", ONE_HANGS], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("left 1\n", 0), ended.stderr


def test_what_is_queued_is_done_before_the_threads_end():
    done = []

    async def scenario():
        threads = DaemonThreads("queue", 1)
        go_on = threading.Event()
        first = threads.start(lambda: go_on.wait(20))
        queued = [threads.start(lambda number=number: done.append(number)) for number in range(3)]
        queued.pop(1).cancel()
        await asyncio.sleep(0)  # what is cancelled on the loop is told to the pool in its next turn
        closing = asyncio.create_task(threads.close(20))
        go_on.set()
        assert await closing == 0
        assert await first
        await asyncio.gather(*queued)

    asyncio.run(scenario())
    assert done == [0, 2]
    for thread in [each for each in threading.enumerate() if each.name.startswith("mcp-queue")]:
        thread.join(20)  # it says that it has ended before it has
        assert not thread.is_alive()
