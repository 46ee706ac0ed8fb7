"""`echo` as a task: made, then asked for until it has ended, as a client of the tasks extension does."""

import asyncio
import time
from typing import Any

from bench.client import META, CallFailedError
from bench.figures import percentile
from bench.peers.target import Amounts, Target

CONNECTIONS = (16, 64)
POLL_SECONDS = 0.02
TASK_SECONDS = 30.0
CAPABLE = {f"{META}clientCapabilities": {"extensions": {f"{META}tasks": {}}}}


async def echo(target: Target, amounts: Amounts) -> dict[str, float]:
    """Tasks a second, and milliseconds from the call to the answer that holds its result."""
    figures = {}
    for connections in CONNECTIONS:
        latencies: list[float] = []
        began_at = time.perf_counter()
        pulls = (_pull(target, began_at + amounts.seconds, latencies) for _ in range(connections))
        await asyncio.gather(*pulls)
        figures[f"rate_{connections}"] = len(latencies) / (time.perf_counter() - began_at)
        figures[f"p50_{connections}"] = percentile(latencies, 50) * 1000
    return figures


async def _pull(target: Target, until: float, latencies: list[float]) -> None:
    connection = await target.client.connect()
    call = {"name": "echo", "arguments": {"text": "hi"}, "_meta": CAPABLE}
    create = target.client.request("tools/call", call, "echo")
    sent_at = time.perf_counter()
    while True:
        made = await connection.send(create)
        if made.get("resultType") != "task":
            raise CallFailedError(f"No task was made: {made}")
        async with asyncio.timeout(TASK_SECONDS):
            await _ended(target, connection, made["taskId"])
        now = time.perf_counter()
        latencies.append(now - sent_at)
        if now > until:
            break
        sent_at = now
    connection.close()


async def _ended(target: Target, connection: Any, task_id: str) -> None:
    ask = target.client.request("tasks/get", {"taskId": task_id, "_meta": CAPABLE}, task_id)
    while True:
        await asyncio.sleep(POLL_SECONDS)
        task = await connection.send(ask)
        if task["status"] == "completed":
            return
        if task["status"] != "working":
            raise CallFailedError(f"A task ended as {task['status']}: {task}")
