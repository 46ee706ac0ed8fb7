"""Measures how soon a tool stops after its client disconnects: from the close of the socket to the tool's last step.

Both times are wall-clock times of this machine. A tool writes one line to a file every `STEP` seconds, which is the
resolution. Calls are abandoned one after another, before their responses begin.
"""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

from bench.client import CallFailedError, Client, Connection

STEP = 0.005
TOOL_SECONDS = 8.0
"""How long an abandoned tool would run if it were not stopped."""
START_SECONDS = 15.0
ADMISSION_SECONDS = 1.5
"""The pause in which the server accepts all calls that will be abandoned. It is not part of the measured time."""
SILENCE_SECONDS = 0.5
LOOK_SECONDS = 0.002
LOST = '"isError": true'
"""Part of the response to a call that was lost."""
RUN_ON = (0.02, 0.06)
"""The range of the random time for which a tool runs before its client disconnects.

It is random so that the disconnect comes at any point of a step.
"""


async def stop_times(client: Client, tool: str, folder: Path, calls: int, pause: float) -> list[float]:
    """Return the seconds from each disconnect to the tool's last step, or 0 if no step followed it.

    `pause` is the time between two calls, in seconds. Raises `CallFailedError`.
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
    """Return the seconds that one `echo` takes right after `abandoned` blocking calls were abandoned.

    Raises `CallFailedError`.
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
    """Return the seconds from the kill of a running call's worker to the error that its client receives.

    `kill` kills the worker. Raises `CallFailedError` if the client receives a result.
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
    """Return the Unix time in the last complete line, `<unix time> <step number>`. Raises `ValueError` without one."""
    *complete, _ = lines.split("\n")
    if not complete:
        raise ValueError("no step was taken")
    return float(complete[-1].split()[0])


async def _start(client: Client, tool: str, path: Path) -> Connection:
    """Start a call, and return its connection once the tool has taken its first step."""
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
    """Wait until no file has grown for `SILENCE_SECONDS`, but for at most `TOOL_SECONDS`."""
    deadline = time.monotonic() + TOOL_SECONDS
    while time.monotonic() < deadline:
        newest = max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
        if (age := time.time() - newest) > SILENCE_SECONDS:
            return
        await asyncio.sleep(SILENCE_SECONDS - age + LOOK_SECONDS)
