"""`SingleFlight` shares readings, but never one that began before the caller asked."""

import asyncio
import threading

import pytest

from mcp_app.transport.process.threads import SingleFlight, Threads

PATIENCE = 10.0


class Readings:
    """A value that is read slowly. The test decides when each reading ends."""

    def __init__(self) -> None:
        self.value = 0
        self.count = 0
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def read(self) -> int:
        found = self.value
        self.count += 1
        self.begun.release()
        assert self.may_end.acquire(timeout=PATIENCE)
        if found < 0:
            raise ValueError("not to be read")
        return found

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE)


def play(scenario) -> None:
    async def with_threads() -> None:
        threads, readings = Threads("tests", 2), Readings()
        async with asyncio.timeout(PATIENCE):
            await scenario(readings, SingleFlight(threads, readings.read))
        await threads.close()

    asyncio.run(with_threads())


def test_who_asks_during_a_reading_waits_for_the_next_which_is_one_for_all() -> None:
    async def scenario(readings: Readings, flight: SingleFlight[int]) -> None:
        first = asyncio.create_task(flight.get())
        await readings.wait()
        readings.value = 1
        others = [asyncio.create_task(flight.get()) for _ in range(10)]
        await asyncio.sleep(0)
        readings.may_end.release(2)
        assert await first == 0
        assert await asyncio.gather(*others) == [1] * 10
        assert readings.count == 2

    play(scenario)


def test_who_leaves_takes_the_reading_from_nobody() -> None:
    async def scenario(readings: Readings, flight: SingleFlight[int]) -> None:
        leaving, staying = asyncio.create_task(flight.get()), asyncio.create_task(flight.get())
        await readings.wait()
        leaving.cancel()
        readings.may_end.release()
        assert await staying == 0
        assert leaving.cancelled()

    play(scenario)


def test_a_reading_that_fails_fails_those_who_asked_for_it_alone() -> None:
    async def scenario(readings: Readings, flight: SingleFlight[int]) -> None:
        readings.value = -1
        failing = asyncio.create_task(flight.get())
        await readings.wait()
        readings.value = 5
        other = asyncio.create_task(flight.get())
        await asyncio.sleep(0)
        readings.may_end.release(2)
        with pytest.raises(ValueError, match="not to be read"):
            await failing
        assert await other == 5

    play(scenario)
