"""Measures how long a blocking tool goes on working after its client has left."""

import asyncio
import statistics
import time
from pathlib import Path

from bench.client import CallFailedError
from bench.peers.target import Amounts, Target

WORK_SECONDS = 6.0
"""How long the tool works if nothing stops it."""
FIRST_STEPS = 10
"""Steps after which the client leaves."""
START_SECONDS = 20.0
SLACK_SECONDS = 1.0
POLL_SECONDS = 0.02


async def abandoned(target: Target, amounts: Amounts) -> dict[str, float]:
    """Return the milliseconds from a disconnect to the tool's last step, and the tools that worked to their end."""
    times: list[float] = []
    for number in range(amounts.abandoned):
        path = target.stack.folder / f"work-{number}-{time.monotonic_ns()}"
        times.append(await _leave(target, path))
    finished = sum(seconds > WORK_SECONDS / 2 for seconds in times)
    return {"calls": len(times), "cancel_p50": statistics.median(times) * 1000, "left_running": finished}


async def _leave(target: Target, path: Path) -> float:
    """Leave one call in the middle, and return the seconds for which its tool went on."""
    connection = await target.client.connect()
    answer = connection.send(target.client.call("work", {"seconds": WORK_SECONDS, "path": str(path)}))
    deadline = time.monotonic() + START_SECONDS
    while len(_steps(path)) < FIRST_STEPS:
        if time.monotonic() > deadline or answer.done():
            raise CallFailedError(f"The tool did not begin within {START_SECONDS:g} s.")
        await asyncio.sleep(POLL_SECONDS)
    left_at = connection.close()
    await asyncio.sleep(WORK_SECONDS + SLACK_SECONDS)
    return max(0.0, _steps(path)[-1] - left_at)


def _steps(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []
