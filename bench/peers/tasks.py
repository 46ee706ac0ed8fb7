"""Measures `echo` as a task. It creates the task and polls it until it ends, as clients of the tasks extension do."""

import asyncio
import time

from bench.client import META, CallFailedError, Connection
from bench.figures import percentile
from bench.peers.target import Amounts, Target

CONNECTIONS = (16, 64)
POLL_SECONDS = 0.02
TASK_SECONDS = 30.0
CAPABLE = {f"{META}clientCapabilities": {"extensions": {f"{META}tasks": {}}}}


async def echo(target: Target, amounts: Amounts) -> dict[str, float]:
    """Return the tasks per second, the milliseconds from the call to the response with its result, and the failures."""
    figures = {}
    for connections in CONNECTIONS:
        latencies: list[float] = []
        failures: list[str] = []
        began_at = time.perf_counter()
        pulls = (_pull(target, began_at + amounts.seconds, latencies, failures) for _ in range(connections))
        await asyncio.gather(*pulls)
        if not latencies:
            raise CallFailedError(f"No task was completed: {failures[-1]}")
        figures[f"rate_{connections}"] = len(latencies) / (time.perf_counter() - began_at)
        figures[f"p50_{connections}"] = percentile(latencies, 50) * 1000
        figures[f"failed_{connections}"] = len(failures)
    return figures


async def _pull(target: Target, until: float, latencies: list[float], failures: list[str]) -> None:
    """Run tasks one after another, at least one. Failures are counted and do not end the measure."""
    connection = await target.client.connect()
    while True:
        sent_at = time.perf_counter()
        try:
            async with asyncio.timeout(TASK_SECONDS):
                await _task(target, connection)
        except (CallFailedError, TimeoutError) as error:
            failures.append(str(error) or type(error).__name__)
            connection.close()
            connection = await target.client.connect()
        else:
            latencies.append(time.perf_counter() - sent_at)
        if time.perf_counter() > until:
            break
    connection.close()


async def _task(target: Target, connection: Connection) -> None:
    call = {"name": "echo", "arguments": {"text": "hi"}, "_meta": CAPABLE}
    made = await connection.send(target.client.request("tools/call", call, "echo"))
    if made.get("resultType") != "task":
        raise CallFailedError(f"No task was made: {made}")
    await _ended(target, connection, made["taskId"])


async def _ended(target: Target, connection: Connection, task_id: str) -> None:
    ask = target.client.request("tasks/get", {"taskId": task_id, "_meta": CAPABLE}, task_id)
    while True:
        await asyncio.sleep(POLL_SECONDS)
        task = await connection.send(ask)
        if task["status"] == "completed":
            return
        if task["status"] != "working":
            raise CallFailedError(f"A task ended as {task['status']}: {task}")
