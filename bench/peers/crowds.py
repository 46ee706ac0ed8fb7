"""Many at once: listen streams, tools that wait, calls that report."""

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.client import CallFailedError, Connection, Message
from bench.figures import percentile
from bench.peers.target import Amounts, Target
from bench.streams import BETWEEN_CHANGES, Listeners

AT_ONCE = 32
"""Streams that are being opened, and calls being sent, at any time."""
CHANGE_SECONDS = 10.0
"""After which a change that has not reached all counts as having taken so long."""
SETTLE_SECONDS = 1.0
FIRST_STREAMS = 32
"""Opened and closed before memory is read: what the first streams of a process load is not what a stream costs."""
REPORT_DELAY = 0.5
START_SECONDS = 60.0
WAIT_SECONDS = 300.0
END_SECONDS = 30.0
LOOK_SECONDS = 0.02
CANCEL_PAUSE = 0.05
KB = 1000


async def listen(target: Target, amounts: Amounts) -> dict[str, float]:
    """What a stream costs in memory, and how soon one change reaches all."""
    return await _listen(target, amounts.streams, amounts.changes)


async def listen_many(target: Target, amounts: Amounts) -> dict[str, float]:
    return await _listen(target, amounts.many_streams, amounts.changes)


async def _listen(target: Target, streams: int, changes: int) -> dict[str, float]:
    await _open_and_close(target, FIRST_STREAMS)
    listeners, before = Listeners(), _memory(target)
    began_at = time.perf_counter()
    try:
        for client in target.clients:
            await listeners.open(client, streams // len(target.clients), at_once=AT_ONCE)
        opened_in = time.perf_counter() - began_at
        await asyncio.sleep(SETTLE_SECONDS)
        each = (_memory(target) - before) / KB / streams
        reached, times = await _changes(target, listeners, changes)
    finally:
        listeners.close()
    return {
        "streams": streams,
        "kb_each": each,
        "open": opened_in * 1000,
        "reached": reached / streams,
        "all": statistics.median(times) * 1000,
    }


async def _changes(target: Target, listeners: Listeners, changes: int) -> tuple[int, list[float]]:
    """How many the worst change reached, and each one's seconds; none follows one that did not reach all."""
    times: list[float] = []
    for _ in range(changes):
        try:
            times.append(await listeners.change(target.client, CHANGE_SECONDS))
        except TimeoutError:
            return listeners.heard, [CHANGE_SECONDS]
        await asyncio.sleep(BETWEEN_CHANGES)
    return listeners.heard, times


async def _open_and_close(target: Target, streams: int) -> None:
    listeners = Listeners()
    try:
        for client in target.clients:
            await listeners.open(client, streams, at_once=AT_ONCE)
        await asyncio.sleep(SETTLE_SECONDS)
    finally:
        listeners.close()
    await asyncio.sleep(SETTLE_SECONDS)


def _memory(target: Target) -> int:
    """Resident, of all server processes."""
    return sum(server.memory_info().rss for server in target.stack.servers)


async def reports(target: Target, amounts: Amounts) -> dict[str, float]:
    """From a tool's report to its notification, many calls at once."""
    delays: list[float] = []

    def note(message: Message) -> None:
        if message["method"] == "notifications/progress":
            delays.append(time.time() - float(message["params"]["message"]))

    arguments = {"steps": amounts.reports_each, "delay": REPORT_DELAY}
    calls = await _send_all(
        target,
        amounts.reporting,
        lambda number: target.client.call("progress", arguments, progress_token=number),
        note,
    )
    try:
        await asyncio.gather(*(answer for _, answer in calls))
    finally:
        for connection, _ in calls:
            connection.close()
    expected = amounts.reporting * amounts.reports_each
    found = {f"p{percent}": percentile(delays, percent) * 1000 for percent in (50, 99)}
    return {"calls": amounts.reporting, **found, "lost": expected - len(delays)}


async def waiting(target: Target, amounts: Amounts) -> dict[str, float]:
    """Tools that wait as coroutines: how many run at once, and how soon each stops when its client leaves."""
    path = target.stack.folder / f"waiting-{time.monotonic_ns()}"
    arguments = {"seconds": WAIT_SECONDS, "path": str(path)}
    calls = await _send_all(
        target, amounts.waiting, lambda number: target.client.call("wait", {"number": number, **arguments})
    )
    began_at = time.perf_counter()
    try:
        await _until(lambda: len(_moments(path, "began")) == len(calls), START_SECONDS)
        began = len(_moments(path, "began"))
        started_in = time.perf_counter() - began_at
        if began < amounts.cancels:
            raise CallFailedError(f"Only {began} of {len(calls)} tools began within {START_SECONDS:g} s.")
        latencies = await _cancel_some(calls, path, amounts.cancels)
    finally:
        for connection, _ in calls:
            connection.close()
    closed_at = time.time()
    await _until(lambda: len(_moments(path, "ended")) == began, END_SECONDS)
    ended = _moments(path, "ended")
    return {
        "at_once": began,
        "start": started_in * 1000,
        "cancel_p50": percentile(latencies, 50) * 1000,
        "cancel_max": max(latencies) * 1000,
        "left_running": began - len(ended),
        "cancel_rest": max(0.0, max(ended.values()) - closed_at) * 1000,
    }


Call = tuple[Connection, "asyncio.Future[Message]"]


async def _send_all(
    target: Target, calls: int, request: Callable[[int], bytes], note: Callable[[Message], None] | None = None
) -> list[Call]:
    sent = []
    for number in range(calls):
        connection = await target.clients[number % len(target.clients)].connect()
        sent.append((connection, connection.send(request(number), note)))
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(LOOK_SECONDS)  # the listening socket's backlog is finite
    return sent


async def _cancel_some(calls: list[Call], path: Path, cancels: int) -> list[float]:
    """Seconds from a client's leaving to its tool's end, one client after another, spread over all that run."""
    began = sorted(_moments(path, "began"))
    chosen = began[:: max(1, len(began) // cancels)][:cancels]
    closed_at = {}
    for number in chosen:
        closed_at[number] = calls[number][0].close()
        await asyncio.sleep(CANCEL_PAUSE)
    await _until(lambda: closed_at.keys() <= _moments(path, "ended").keys(), END_SECONDS)
    ended = _moments(path, "ended")
    if missing := closed_at.keys() - ended.keys():
        raise CallFailedError(f"{len(missing)} of {cancels} cancelled tools still run after {END_SECONDS:g} s.")
    return [max(0.0, ended[number] - closed) for number, closed in closed_at.items()]


def _moments(path: Path, what: str) -> dict[int, float]:
    """By number when each tool began, or ended."""
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text().splitlines())
    return {int(number): float(moment) for said, number, moment in lines if said == what}


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for the condition, at most so long."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110  # another process's file
        await asyncio.sleep(LOOK_SECONDS)
