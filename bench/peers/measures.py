"""The measures. Each measures a target and returns figures by name, which `docs/project/benchmarks.md` explains.

Durations are in milliseconds. A measure that fails raises `CallFailedError`, `StackError`, `OSError`, `ValueError` or
`TimeoutError`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from bench import streams
from bench.figures import percentile
from bench.peers import abandoning, crowds, idleness, tasks
from bench.peers.target import Amounts, Target
from bench.throughput import load

Figures = dict[str, float]
Measure = Callable[[Target, Amounts], Awaitable[Figures]]

CONNECTIONS: Final = (1, 16, 64)
MANY: Final = 16
NO_END: Final = 10**9
FLOOR_SECONDS: Final = 120.0


async def echo(target: Target, amounts: Amounts) -> Figures:
    """Measure `tools/call` with a tool that returns its argument."""
    request = target.client.call("echo", {"text": "hi"})
    figures = {}
    for connections in CONNECTIONS:
        found = await _load(target, request, connections, amounts)
        figures |= {f"{name}_{connections}": value for name, value in found.items()}
    return figures


async def tools_list(target: Target, amounts: Amounts) -> Figures:
    request = target.client.request("tools/list")
    connection = await target.client.connect()
    listed = (await connection.send(request))["tools"]
    connection.close()
    figures = await _load(target, request, MANY, amounts)
    return figures | {"tools": len(listed), "bytes": len(json.dumps(listed, separators=(",", ":")))}


async def discover(target: Target, amounts: Amounts) -> Figures:
    return await _load(target, target.client.request("server/discover"), MANY, amounts)


async def celery(target: Target, amounts: Amounts) -> Figures:
    """Measure the bare Celery round trip on the target's own broker, result backend and options."""
    counts = ("--round-trips", str(amounts.trips), "--tasks", str(amounts.tasks), "--outstanding", str(MANY))
    module = ("-m", "bench.celery_floor", *counts)
    output = await asyncio.to_thread(target.stack.run, *module, seconds=FLOOR_SECONDS)
    found = json.loads(output)
    return _milliseconds(found["round_trips"]) | {"rate": found["tasks_per_second"]}


async def progress(target: Target, amounts: Amounts) -> Figures:
    """Measure the time from a tool's report to its notification, with one call."""
    delays = await streams.progress_delays(target.client, amounts.reports)
    return _milliseconds(delays) | {"lost": amounts.reports - len(delays)}


async def _load(target: Target, request: bytes, connections: int, amounts: Amounts) -> Figures:
    found = await load(target.client, request, connections=connections, requests=NO_END, seconds=amounts.seconds)
    return {"rate": found.rate, **_milliseconds(found.latencies)}


def _milliseconds(seconds: list[float]) -> Figures:
    return {"p50": percentile(seconds, 50) * 1000, "p99": percentile(seconds, 99) * 1000}


MEASURES: Final[dict[str, Measure]] = {
    "echo": echo,
    "list": tools_list,
    "discover": discover,
    "tasks": tasks.echo,
    "celery": celery,
    "progress": progress,
    "reports": crowds.reports,
    "waiting": crowds.waiting,
    "abandoned": abandoning.abandoned,
    "listen": crowds.listen,
    "listen-many": crowds.listen_many,
    "idle": idleness.statements,
}
"""All measures by name, in the order in which they appear in the report."""
