"""What many want done at one moment is done by one job, and each has its own outcome."""

import asyncio

import pytest

from mcp_app.transport.daemon_threads import DaemonThreads
from mcp_app.transport.gathered import APART, CROWD, MOST, NOBODY, Company, Crowd, Gathered


class _Jobs:
    """Stands for threads: jobs that end when they are told to."""

    def __init__(self, beside: int = 1) -> None:
        self.begun: list[tuple[list[str], asyncio.Future[object]]] = []
        self.one_more = asyncio.Event()
        self.gathered: Gathered[str, str] = Gathered(self._start, self._note, beside)

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


def _run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_what_comes_at_one_moment_is_one_job():
    async def scenario():
        jobs = _Jobs()
        done = [jobs.gathered.put(value) for value in ("a", "b")]
        await _settled()
        assert jobs.values == [["a", "b"]]
        jobs.end(0)
        assert await asyncio.gather(*done) == ["A", "B"]

    _run(scenario)


def test_what_comes_while_a_job_runs_is_the_next_one():
    async def scenario():
        jobs = _Jobs()
        first = jobs.gathered.put("first")
        await _settled()
        others = [jobs.gathered.put(value) for value in ("a", "b")]
        await _settled()
        assert jobs.values == [["first"]]
        jobs.end(0)
        assert await first == "FIRST"
        await _settled()
        assert jobs.values == [["first"], ["a", "b"]]
        jobs.end(1)
        assert await asyncio.gather(*others) == ["A", "B"]

    _run(scenario)


def test_a_job_that_takes_long_holds_up_nobody():
    async def scenario():
        jobs = _Jobs(beside=2)
        first = jobs.gathered.put("first")
        await _settled()
        jobs.one_more.clear()
        second = jobs.gathered.put("second")
        await jobs.one_more.wait()
        third = jobs.gathered.put("third")
        jobs.end(1)
        assert await second == "SECOND"
        await _settled()
        assert jobs.values == [["first"], ["second"], ["third"]]
        jobs.end(0)
        jobs.end(2)
        assert await asyncio.gather(first, third) == ["FIRST", "THIRD"]

    _run(scenario)


def test_in_a_crowd_a_job_keeps_waiting_for_company_until_it_is_time():
    async def scenario():
        jobs = _Jobs()
        first = jobs.gathered.put("first", Company(0.05, enough=9))
        await _settled()
        assert jobs.values == [["first"]]  # none began before
        began_at = asyncio.get_running_loop().time()
        jobs.end(0)
        assert await first == "FIRST"
        jobs.one_more.clear()
        others = [jobs.gathered.put("a", Company(0.05, enough=9))]
        await _settled()
        others.append(jobs.gathered.put("b", Company(0.05, enough=9)))
        assert jobs.values == [["first"]]
        await jobs.one_more.wait()
        assert jobs.values == [["first"], ["a", "b"]]
        assert asyncio.get_running_loop().time() > began_at + 0.04
        jobs.end(1)
        assert await asyncio.gather(*others) == ["A", "B"]

    _run(scenario)


def test_nobody_is_kept_waiting_for_company_when_enough_are_there():
    async def scenario():
        jobs = _Jobs()
        crowd = Company(60.0, enough=3)
        jobs.gathered.put("first", crowd)
        jobs.gathered.put("second", crowd)
        jobs.gathered.put("third", crowd)
        await _settled()
        jobs.end(0)
        await _settled()
        for value in ("a", "b"):
            jobs.gathered.put(value, crowd)
        await _settled()
        assert jobs.values == [["first", "second", "third"]]
        for value in ("c", "d"):
            jobs.gathered.put(value, crowd)
        await _settled()
        assert jobs.values == [["first", "second", "third"], ["a", "b", "c", "d"]]

    _run(scenario)


def test_company_is_half_of_a_crowd_and_who_comes_alone_waits_for_none():
    crowd = Crowd()
    assert crowd.company(CROWD - 1) == NOBODY == Company(0.0, 0)
    assert crowd.company(3 * CROWD) == Company(APART, 1.5 * CROWD)
    assert crowd.company(3 * MOST).enough == MOST, "more than one job takes are not waited for"


def test_company_is_waited_for_as_long_as_a_call_has_taken_of_late():
    crowd = Crowd()
    for _ in range(200):
        crowd.answered(APART / 3)
    assert crowd.company(CROWD).apart == pytest.approx(APART / 3, rel=0.01)
    crowd.answered(3600.0)
    assert crowd.company(CROWD).apart < APART / 2, "one that took an hour is one of many"
    for _ in range(200):
        crowd.answered(3600.0)
    assert crowd.company(CROWD).apart == pytest.approx(APART, rel=0.01), "and nobody is waited for as long as it takes"


def test_each_has_its_own_outcome():
    async def scenario():
        jobs = _Jobs()
        well, bad = jobs.gathered.put("well"), jobs.gathered.put("bad")
        await _settled()
        jobs.end(0)
        assert await well == "WELL"
        with pytest.raises(ValueError, match="bad"):
            await bad

    _run(scenario)


def test_what_a_whole_job_raises_is_everybodys_and_ends_nothing_else():
    async def scenario():
        jobs = _Jobs()
        failed = [jobs.gathered.put(value) for value in ("a", "b")]
        await _settled()
        jobs.begun[0][1].set_exception(OSError("away"))
        for each in failed:
            with pytest.raises(OSError, match="away"):
                await each
        later = jobs.gathered.put("later")
        await _settled()
        jobs.end(1)
        assert await later == "LATER"

    _run(scenario)


def test_who_left_before_the_job_began_is_left_out():
    async def scenario():
        jobs = _Jobs()
        gone, here = jobs.gathered.put("gone"), jobs.gathered.put("here")
        gone.cancel()
        await _settled()
        assert jobs.values == [["here"]]
        jobs.end(0)
        assert await here == "HERE"

    _run(scenario)


def test_a_job_has_so_many_at_the_most():
    async def scenario():
        jobs = _Jobs()
        done = [jobs.gathered.put(str(number)) for number in range(MOST + 1)]
        await _settled()
        jobs.end(0)
        await _settled()
        assert [len(values) for values in jobs.values] == [MOST, 1]
        jobs.end(1)
        assert len(await asyncio.gather(*done)) == MOST + 1

    _run(scenario)


def test_threads_that_are_closed_refuse_whoever_comes():
    async def scenario():
        threads = DaemonThreads("closed", 1)
        gathered: Gathered[str, str] = Gathered(threads.start, lambda values: values, 1)
        await threads.close(20)
        with pytest.raises(RuntimeError, match="closed"):
            await gathered.put("late")

    _run(scenario)
