"""The threads of a server process: a thread that hangs does not keep the process alive."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref

import pytest
from django.db import OperationalError

from mcp_app.transport.process import threads
from mcp_app.transport.process.threads import Threads

ONE_HANGS = """
import asyncio, threading
from mcp_app.transport.process.threads import Threads

async def main():
    threads = Threads("stuck", 1)
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
        threads = Threads("queue", 1)
        go_on = threading.Event()
        first = threads.start(lambda: go_on.wait(20))
        queued = [threads.start(lambda number=number: done.append(number)) for number in range(3)]
        queued.pop(1).cancel()
        await asyncio.sleep(0)  # the loop notifies the pool in its next iteration
        closing = asyncio.create_task(threads.close(20))
        go_on.set()
        assert await closing == 0
        assert await first
        await asyncio.gather(*queued)

    asyncio.run(scenario())
    assert done == [0, 2]
    for thread in [each for each in threading.enumerate() if each.name.startswith("mcp-queue")]:
        thread.join(20)  # a thread reports its end a moment before it ends
        assert not thread.is_alive()


def test_a_pool_serves_one_loop_after_another_and_keeps_none():
    threads = Threads("loops", 2)
    kept = []

    async def scenario():
        kept.append(weakref.ref(asyncio.get_running_loop()))
        return await asyncio.gather(*(threads.start(lambda number=number: number) for number in range(50)))

    for _ in range(3):
        assert asyncio.run(scenario()) == list(range(50))
    gc.collect()
    assert [each() for each in kept] == [None] * 3
    asyncio.run(threads.close(20))


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), StopIteration()])
def test_whatever_a_job_raises_comes_to_who_waits_and_harms_no_other(error: BaseException):
    def fail():
        raise error

    async def scenario():
        threads = Threads("fails", 1)
        failed, well = threads.start(fail), threads.start(lambda: "well")
        await asyncio.wait([failed, well])
        assert await threads.close(20) == 0
        return failed.exception(), well.result()

    raised, result = asyncio.run(scenario())
    assert raised is error or isinstance(error, StopIteration)
    assert raised is not None
    assert result == "well"


def test_what_is_done_for_a_loop_that_has_ended_is_nobodys():
    threads = Threads("late", 1)
    go_on = threading.Event()

    async def leave():
        threads.start(lambda: go_on.wait(20))

    async def come():
        return await threads.start(lambda: "served")

    asyncio.run(leave())
    go_on.set()
    assert asyncio.run(come()) == "served"
    assert asyncio.run(threads.close(20)) == 0


async def test_a_job_that_takes_long_holds_up_none_of_the_others():
    threads = Threads("held-up", 2)
    go_on = threading.Event()
    long = threads.start(lambda: go_on.wait(20))
    others = [threads.start(lambda number=number: number) for number in range(3)]
    assert await asyncio.wait_for(asyncio.gather(*others), 20) == [0, 1, 2]
    later = await asyncio.wait_for(threads.start(lambda: "later"), 20)
    go_on.set()
    assert (later, await long) == ("later", True)
    assert await threads.close(20) == 0


async def test_as_many_threads_as_there_are_take_over_and_come_back():
    threads = Threads("many", 3)
    go_on, all_held_up = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    last = [lambda: None, lambda: None, lambda: loop.call_soon_threadsafe(all_held_up.set)]
    long = [threads.start(lambda say=say: (say(), go_on.wait(20))[1]) for say in last]
    behind = threads.start(lambda: "behind")
    await asyncio.wait_for(all_held_up.wait(), 20)
    assert not behind.done()
    go_on.set()
    assert await asyncio.wait_for(behind, 20) == "behind"
    assert await asyncio.gather(*long) == [True] * 3
    assert await threads.start(lambda: "later") == "later"
    assert await threads.close(20) == 0


def test_threads_that_were_called_while_the_pool_closes_end_as_well():
    async def scenario():
        threads = Threads("closing", 2)
        go_on = threading.Event()
        held_up, behind = threads.start(lambda: go_on.wait(20)), threads.start(lambda: "behind")
        closing = asyncio.create_task(threads.close(20))
        assert await asyncio.wait_for(behind, 20) == "behind"
        go_on.set()
        assert await held_up
        return await asyncio.wait_for(closing, 10)

    assert asyncio.run(scenario()) == 0


async def test_what_is_insisted_on_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "RETRY_SECONDS", 0.01)
    asked = []

    def away() -> None:
        asked.append(True)
        raise OperationalError("the database is away")

    pool = Threads("test", 1)
    with pytest.raises(OperationalError):
        await pool.insist(away, seconds=0.05)
    await pool.close()
    assert len(asked) > 1
