"""The measures with many clients at once: listen streams, waiting tools and reporting calls."""

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
"""The number of streams that are opened at the same time, and of calls that are sent without a pause."""
CHANGE_SECONDS = 10.0
"""The time limit of a change, and its duration if it has not reached all streams by that time."""
SETTLE_SECONDS = 1.0
FIRST_STREAMS = 32
"""Streams to open and close before memory is read, because the first streams of a process make it load code."""
REPORT_DELAY = 0.5
START_SECONDS = 60.0
WAIT_SECONDS = 300.0
END_SECONDS = 30.0
LOOK_SECONDS = 0.02
CANCEL_PAUSE = 0.05
KB = 1000


async def listen(target: Target, amounts: Amounts) -> dict[str, float]:
    """Return the memory of a stream and the time until one change reaches all streams."""
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
    """Return the number of streams that the last change reached, and the seconds of each change.

    Stops at the first change that does not reach all streams.
    """
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
    """Return the resident memory of all server processes, in bytes."""
    return sum(server.memory_info().rss for server in target.stack.servers)


async def reports(target: Target, amounts: Amounts) -> dict[str, float]:
    """Return the times from a tool's report to its notification, with many calls at once."""
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
    """Return how many waiting coroutine tools run at once, and how soon they stop after their clients disconnect."""
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
    """Disconnect some clients one after another, and return the seconds from each disconnect to the end of the tool.

    The clients are spread evenly over all running calls.
    """
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
    """Return the time at which each tool began, or ended, by its number."""
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text().splitlines())
    return {int(number): float(moment) for said, number, moment in lines if said == what}


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for the condition, for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110  # another process's file
        await asyncio.sleep(LOOK_SECONDS)
