"""How soon work stops once its client has gone: from the close of the client's socket to the tool's last step.

Both ends are wall-clock times of this machine; a tool takes a step, one line of a file, every `STEP` seconds, which is
the resolution. Calls are abandoned one after another, as the answer was still to be plain JSON.
"""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

from bench.client import CallFailedError, Client, Connection

STEP = 0.005
TOOL_SECONDS = 8.0
"""How long an abandoned tool would go on if nothing stopped it."""
START_SECONDS = 15.0
ADMISSION_SECONDS = 1.5
"""What the server is given to take in all calls that are going to be abandoned: that is not what is measured."""
SILENCE_SECONDS = 0.5
LOOK_SECONDS = 0.002
LOST = '"isError": true'
"""In the answer to a call that was lost."""
RUN_ON = (0.02, 0.06)
"""How long a tool runs before its client goes: at random, so that it is caught anywhere within a step."""


async def stop_times(client: Client, tool: str, folder: Path, calls: int, pause: float) -> list[float]:
    """Seconds from each disconnect to the tool's last step, 0 when there was none after it; `pause` between calls.

    Raises CallFailedError.
    """
    chance = random.Random(calls)
    closed_at = {}
    for number in range(calls):
        path = folder / f"{tool}-{number}"
        connection = await _start(client, tool, path)
        await asyncio.sleep(chance.uniform(*RUN_ON))
        closed_at[path] = connection.close()
        await asyncio.sleep(pause)
    await _silence(list(closed_at))
    return [max(0.0, last_step(path.read_text()) - closed) for path, closed in closed_at.items()]


async def call_after_abandoned(client: Client, folder: Path, abandoned: int) -> float:
    """Seconds that one `echo` takes when that many blocking calls were abandoned right before it.

    Raises CallFailedError.
    """
    warm = await client.connect()
    echo = client.call("echo", {"text": "hi"})
    await warm.send(echo)
    paths = [folder / f"abandoned-{time.monotonic_ns()}-{number}" for number in range(abandoned)]
    connections = [await _send(client, "sleep_sync", path, seconds=30.0) for path in paths]
    await _await(lambda: any(path.exists() for path in paths), "No tool started")
    await asyncio.sleep(ADMISSION_SECONDS)
    for connection in connections:
        connection.close()
    began_at = time.perf_counter()
    await warm.send(echo)
    took = time.perf_counter() - began_at
    warm.close()
    await _silence(paths)
    return took


async def error_after_kill(client: Client, folder: Path, kill: Callable[[], None]) -> float:
    """Seconds from the death of a running call's worker, which `kill` kills, to the error that its client gets.

    Raises CallFailedError where the client gets a result.
    """
    path = folder / f"killed-{time.monotonic_ns()}"
    connection = await client.connect()
    answer = connection.send(client.call("sleep_sync", {"seconds": 60.0, "path": str(path), "step": STEP}))
    await _await(path.exists, "sleep_sync did not start")
    began_at = time.perf_counter()
    kill()
    try:
        await answer
    except CallFailedError as error:
        if LOST not in str(error):
            raise
        return time.perf_counter() - began_at
    finally:
        connection.close()
    raise CallFailedError("A call whose worker was killed had a result.")


def last_step(lines: str) -> float:
    """The Unix time of the last complete line `<unix time> <step number>`. Raises ValueError."""
    *complete, _ = lines.split("\n")
    if not complete:
        raise ValueError("no step was taken")
    return float(complete[-1].split()[0])


async def _start(client: Client, tool: str, path: Path) -> Connection:
    """A connection whose call is running: its first step is taken."""
    connection = await _send(client, tool, path, TOOL_SECONDS)
    await _await(path.exists, f"{tool} did not start")
    return connection


async def _send(client: Client, tool: str, path: Path, seconds: float) -> Connection:
    connection = await client.connect()
    connection.send(client.call(tool, {"seconds": seconds, "path": str(path), "step": STEP}))
    return connection


async def _await(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise CallFailedError(f"{otherwise} within {START_SECONDS:g} s.")
        await asyncio.sleep(LOOK_SECONDS)


async def _silence(paths: list[Path]) -> None:
    """Wait until none of the files has grown for a while; as long as the tools would have run at most."""
    deadline = time.monotonic() + TOOL_SECONDS
    while time.monotonic() < deadline:
        newest = max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
        if (age := time.time() - newest) > SILENCE_SECONDS:
            return
        await asyncio.sleep(SILENCE_SECONDS - age + LOOK_SECONDS)
