"""The measures in the order in which they are taken, with their numbers of samples and their goals.

Each measure has a time limit. If one fails, its line in the table contains the reason, and the others are still taken.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

from bench import stopping, streams
from bench.client import CallFailedError, Client
from bench.figures import Figure, Measured, milliseconds
from bench.machine import Others
from bench.readiness import answered
from bench.stack import HOST, Stack, StackError
from bench.throughput import load

READY_SECONDS = 60.0
MEASURE_SECONDS = 45.0
FLOOR_SECONDS = 30.0
AUDIT_SECONDS = 20.0
MANY = 16
ABANDONED = 40
STREAMS = 200
KILL_GRACE = 0.5
"""The hard grace of the tool `stubborn`."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of samples of each measure."""

    disconnects: int = 80
    kills: int = 12
    after_abandoned: int = 5
    alone: int = 400
    together: int = 2000
    lists: int = 2000
    reports: int = 150
    changes: int = 5
    killed_workers: int = 2
    seconds: float = 200.0
    """The time limit for all measures together. Measures that begin after it fail at once."""

    def quick(self) -> "Counts":
        """Return counts with which a whole run takes less than a minute."""
        return Counts(
            disconnects=20,
            kills=3,
            after_abandoned=1,
            alone=100,
            together=400,
            lists=400,
            reports=50,
            changes=2,
            killed_workers=1,
            seconds=48.0,
        )


class Bench:
    """Takes the measures of one running site."""

    def __init__(self, stack: Stack, counts: Counts) -> None:
        self._stack = stack
        self._counts = counts
        self._client = Client(HOST, stack.port)
        self._echo = self._client.call("echo", {"text": "hi"})
        self._folder = stack.folder / "steps"
        self._folder.mkdir()

    async def ready(self) -> None:
        """Wait until the site has completed enough calls to warm up every worker process. Raises `StackError`."""
        await answered(self._stack, self._client, self._echo, READY_SECONDS, at_once=MANY, requests=MANY * 15)

    async def measure(self) -> AsyncIterator[Measured]:
        """Take the measures, and yield each one when it is done."""
        deadline = time.monotonic() + self._counts.seconds
        for name, take in self._all():
            others = Others()
            try:
                async with asyncio.timeout(min(MEASURE_SECONDS, deadline - time.monotonic())):
                    measured = await take(name)
            except TimeoutError:
                measured = Measured(name, 0, (), failure="it took too long, or those before it did")
            except (CallFailedError, StackError, OSError, ValueError) as error:
                measured = Measured(name, 0, (), failure=str(error) or type(error).__name__)
            yield replace(measured, other_cores=others.cores())

    def _all(self) -> list[tuple[str, Callable[[str], Awaitable[Measured]]]]:
        return [
            ("disconnect → last step, sleep_sync", self._interrupts),
            ("disconnect → killed, stubborn", self._kills),
            ("  the same two, by the server's audit", self._audit),
            (f"echo after {ABANDONED} abandoned blocking calls", self._after_abandoned),
            ("echo, 1 connection", self._echo_alone),
            (f"echo, {MANY} connections", self._echo_together),
            ("bare Celery round trip, 1 and 16 outstanding", self._floor),
            (f"tools/list, {MANY} connections", self._tools_list),
            (f"server/discover, {MANY} connections", self._discover),
            ("progress, reported → received", self._progress),
            (f"a change → all of {STREAMS} listen streams", self._fan_out),
            ("worker killed → its client's error", self._kill_of_worker),
        ]

    async def _interrupts(self, name: str) -> Measured:
        times = await self._stop_times("sleep_sync", self._counts.disconnects, pause=0.1)
        return Measured(name, len(times), tuple(milliseconds(times, 50, 99, 100, goals={50: 8, 99: 30})))

    async def _kills(self, name: str) -> Measured:
        times = await self._stop_times("stubborn", self._counts.kills, pause=KILL_GRACE + 0.3)
        beyond = max(times) - KILL_GRACE
        figures = [
            *milliseconds(times, 50, 100),
            Figure("beyond its 500 ms grace at most", beyond * 1000, "ms", at_most=200),
        ]
        return Measured(name, len(times), tuple(figures))

    async def _stop_times(self, tool: str, calls: int, pause: float) -> list[float]:
        return await stopping.stop_times(self._client, tool, self._folder, calls, pause)

    async def _audit(self, name: str) -> Measured:
        output = await asyncio.to_thread(self._stack.run, "-m", "bench.audit", seconds=AUDIT_SECONDS)
        by_tool: dict[str, list[float]] = json.loads(output)
        figures = [
            replace(figure, label=f"{tool} {figure.label}")
            for tool, latencies in sorted(by_tool.items())
            for figure in milliseconds([latency / 1000 for latency in latencies], 50, 99)
        ]
        return Measured(name, sum(map(len, by_tool.values())), tuple(figures))

    async def _after_abandoned(self, name: str) -> Measured:
        rounds = self._counts.after_abandoned
        times = [await stopping.call_after_abandoned(self._client, self._folder, ABANDONED) for _ in range(rounds)]
        return Measured(name, len(times), tuple(milliseconds(times, 50, 100, goals={100: 200})))

    async def _echo_alone(self, name: str) -> Measured:
        found = await load(self._client, self._echo, connections=1, requests=self._counts.alone)
        return Measured(name, len(found.latencies), tuple(milliseconds(found.latencies, 50, 99)))

    async def _echo_together(self, name: str) -> Measured:
        server, worker = self._stack.cpu_seconds()
        measured = await self._rate(name, self._echo, self._counts.together)
        used = self._stack.cpu_seconds()
        per_call = 1000 / measured.samples
        return replace(
            measured,
            figures=(
                *measured.figures,
                Figure("CPU per call: server", (used[0] - server) * per_call, "ms"),
                Figure("worker", (used[1] - worker) * per_call, "ms"),
            ),
        )

    async def _tools_list(self, name: str) -> Measured:
        return await self._rate(name, self._client.request("tools/list"), self._counts.lists)

    async def _discover(self, name: str) -> Measured:
        return await self._rate(name, self._client.request("server/discover"), self._counts.lists)

    async def _rate(self, name: str, request: bytes, requests: int) -> Measured:
        found = await load(self._client, request, connections=MANY, requests=requests)
        rate = Figure("", found.rate, "/s")
        return Measured(name, len(found.latencies), (rate, *milliseconds(found.latencies, 50, 99)))

    async def _floor(self, name: str) -> Measured:
        counts = (self._counts.alone, self._counts.together)
        options = ("--round-trips", str(counts[0]), "--tasks", str(counts[1]), "--outstanding", str(MANY))
        module = ("-m", "bench.celery_floor")
        output = await asyncio.to_thread(self._stack.run, *module, *options, seconds=FLOOR_SECONDS)
        found = json.loads(output)
        rate = Figure("", found["tasks_per_second"], "/s")
        return Measured(name, sum(counts), (*milliseconds(found["round_trips"], 50, 99), rate))

    async def _progress(self, name: str) -> Measured:
        delays = await streams.progress_delays(self._client, self._counts.reports)
        lost = Figure("lost", self._counts.reports - len(delays), "", at_most=0)
        return Measured(name, len(delays), (*milliseconds(delays, 50, 99), lost))

    async def _kill_of_worker(self, name: str) -> Measured:
        times = []
        for _ in range(self._counts.killed_workers):
            times.append(await stopping.error_after_kill(self._client, self._folder, self._stack.kill_worker))
            await asyncio.to_thread(self._stack.restore_worker)
        return Measured(name, len(times), (Figure("max", max(times), "s", at_most=15),))

    async def _fan_out(self, name: str) -> Measured:
        times = await streams.fan_out(self._client, STREAMS, self._counts.changes)
        return Measured(name, len(times), tuple(milliseconds(times, 50, 100)))
