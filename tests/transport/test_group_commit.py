"""`GroupCommit` passes items that arrive together to one job. Each item has its own outcome."""

import asyncio

import pytest

from mcp_app.transport.process.threads import MAX_ITEMS, GroupCommit, Threads

pytestmark = pytest.mark.timeout(20)


class _Jobs:
    """Replaces the threads. The test ends each job with `end`."""

    def __init__(self, beside: int = 1) -> None:
        self.begun: list[tuple[list[str], asyncio.Future[object]]] = []
        self.one_more = asyncio.Event()
        self.group_commit: GroupCommit[str, str] = GroupCommit(self._start, self._note, beside)

    def end(self, place: int) -> None:
        values, job = self.begun[place]
        job.set_result([ValueError("bad") if value == "bad" else value.upper() for value in values])

    def _note(self, values):
        return values

    def _start(self, function):
        job = asyncio.get_running_loop().create_future()
        self.begun.append((list(function()), job))
        self.one_more.set()
        return job

    @property
    def values(self) -> list[list[str]]:
        return [values for values, _ in self.begun]


async def _settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_comes_at_one_moment_is_one_job():
    jobs = _Jobs()
    done = [jobs.group_commit.put(value) for value in ("a", "b")]
    await _settled()
    assert jobs.values == [["a", "b"]]
    jobs.end(0)
    assert await asyncio.gather(*done) == ["A", "B"]


async def test_what_comes_while_a_job_runs_is_the_next_one():
    jobs = _Jobs()
    first = jobs.group_commit.put("first")
    await _settled()
    others = [jobs.group_commit.put(value) for value in ("a", "b")]
    await _settled()
    assert jobs.values == [["first"]]
    jobs.end(0)
    assert await first == "FIRST"
    await _settled()
    assert jobs.values == [["first"], ["a", "b"]]
    jobs.end(1)
    assert await asyncio.gather(*others) == ["A", "B"]


async def test_a_job_that_takes_long_holds_up_nobody():
    jobs = _Jobs(beside=2)
    first = jobs.group_commit.put("first")
    await _settled()
    jobs.one_more.clear()
    second = jobs.group_commit.put("second")
    await jobs.one_more.wait()
    third = jobs.group_commit.put("third")
    jobs.end(1)
    assert await second == "SECOND"
    await _settled()
    assert jobs.values == [["first"], ["second"], ["third"]]
    jobs.end(0)
    jobs.end(2)
    assert await asyncio.gather(first, third) == ["FIRST", "THIRD"]


async def test_each_has_its_own_outcome():
    jobs = _Jobs()
    well, bad = jobs.group_commit.put("well"), jobs.group_commit.put("bad")
    await _settled()
    jobs.end(0)
    assert await well == "WELL"
    with pytest.raises(ValueError, match="bad"):
        await bad


async def test_what_a_whole_job_raises_is_everybodys_and_ends_nothing_else():
    jobs = _Jobs()
    failed = [jobs.group_commit.put(value) for value in ("a", "b")]
    await _settled()
    jobs.begun[0][1].set_exception(OSError("away"))
    for each in failed:
        with pytest.raises(OSError, match="away"):
            await each
    later = jobs.group_commit.put("later")
    await _settled()
    jobs.end(1)
    assert await later == "LATER"


async def test_who_left_before_the_job_began_is_left_out():
    jobs = _Jobs()
    gone, here = jobs.group_commit.put("gone"), jobs.group_commit.put("here")
    gone.cancel()
    await _settled()
    assert jobs.values == [["here"]]
    jobs.end(0)
    assert await here == "HERE"


async def test_a_job_has_so_many_at_the_most():
    jobs = _Jobs()
    done = [jobs.group_commit.put(str(number)) for number in range(MAX_ITEMS + 1)]
    await _settled()
    jobs.end(0)
    await _settled()
    assert [len(values) for values in jobs.values] == [MAX_ITEMS, 1]
    jobs.end(1)
    assert len(await asyncio.gather(*done)) == MAX_ITEMS + 1


async def test_threads_that_are_closed_refuse_whoever_comes():
    threads = Threads("closed", 1)
    group_commit: GroupCommit[str, str] = GroupCommit(threads.start, lambda values: values, 1)
    await threads.close(20)
    with pytest.raises(RuntimeError, match="closed"):
        await group_commit.put("late")
