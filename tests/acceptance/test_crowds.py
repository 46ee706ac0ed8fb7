"""A thousand listeners, a storm of cancellations, callers beyond the limits, and clients that send noise.

The server needs little memory, answers other requests, rejects the excess with a `Retry-After`, and keeps nothing of
clients that have left.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.crowds import MIB, Crowd, raise_descriptor_limit, report, request_bytes, resident, watching
from tests.acceptance.hostile import Hostile
from tests.support.site import layouts
from tests.support.site.stack import Stack
from tests.support.site.wire import JSON, call, message, text
from tests.support.waiting import eventually

TOGETHER = 50
"""Connections that are opened at the same time."""
PATIENCE = 120.0
LISTENERS = [1_000, pytest.param(10_000, marks=pytest.mark.nightly)]


@pytest.fixture(params=LISTENERS)
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Stack, int]]:
    count: int = request.param
    raise_descriptor_limit(count + 1_000)
    most = {"MAX_LISTEN_STREAMS_PER_PRINCIPAL": count + 1, "MAX_CONNECTIONS": count + 500}
    settings = {"KEEP_ALIVE": 15.0, "REQUEST_BURST": 100_000, "MAX_LISTEN_STREAMS": count, **most}
    with layouts.narrow(tmp_path, **settings) as stack:
        yield stack, count


LIMITS = {"MAX_QUEUED_REQUESTS": 5, "REQUEST_BURST": 20, "REQUEST_RATE": 20.0}
"""Five calls may wait for the worker's two slots, and a caller may send twenty requests a second."""


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Stack]:
    with layouts.narrow(tmp_path, **LIMITS) as stack:
        yield stack


@pytest.fixture
def limited_on_each(engines: dict[str, str], tmp_path: Path) -> Iterator[Stack]:
    """A site with `LIMITS`, embedded and on PostgreSQL and Redis."""
    if not engines:
        with layouts.narrow(tmp_path, **LIMITS) as stack:
            yield stack
        return
    environment = {**engines, "MCP_TEST_SETTINGS": json.dumps(LIMITS)}
    with layouts.apart(tmp_path, environment, settings="tests.acceptance.narrow_settings") as stack:
        yield stack


def listen() -> bytes:
    return request_bytes(message("subscriptions/listen", notifications={"toolsListChanged": True}))


async def open_streams(crowd: Crowd, count: int) -> list[asyncio.StreamReader]:
    async def one() -> asyncio.StreamReader:
        reader, _ = await crowd.send(listen())
        await reader.readuntil(b"subscriptions/acknowledged")
        return reader

    streams: list[asyncio.StreamReader] = []
    for begun in range(0, count, TOGETHER):
        streams += await asyncio.gather(*(one() for _ in range(min(TOGETHER, count - begun))))
    return streams


async def hear_of_a_change(stack: Stack, streams: list[asyncio.StreamReader]) -> float:
    """Trigger a change, and return the seconds until all streams were notified."""
    began_at = time.monotonic()
    await asyncio.to_thread(lambda: stack.call("trigger_change").result())
    await asyncio.gather(*(stream.readuntil(b"tools/list_changed") for stream in streams))
    return time.monotonic() - began_at


@pytest.mark.fault("E2")
@pytest.mark.timeout(900)
def test_E2_a_thousand_listeners_are_told_leave_at_once_and_leave_nothing(listening: tuple[Stack, int]) -> None:
    stack, count = listening
    [server] = stack.servers
    grown = []
    took = []

    async def scenario() -> None:
        crowd = Crowd(server.port)
        for _ in range(3):
            # Each round needs all slots, so it would fail if one had not been released.
            streams = await open_streams(crowd, count)
            took.append(await hear_of_a_change(stack, streams))
            over, _ = await crowd.send(listen())
            head = await over.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 "), head
            assert b"retry-after: 1\r\n" in head.lower()
            await crowd.leave()
            await asyncio.sleep(1.5)  # until Daphne has dropped the connections
            grown.append(resident(server.program.pid))

    stack.call("echo", text="awake").result()
    with watching(server) as seen:
        asyncio.run(asyncio.wait_for(scenario(), 6 * PATIENCE))
    # The memory of the first round is used again in the next ones.
    assert seen.most - seen.before < count * 64 + 50 * MIB, (seen.before, seen.most)
    assert grown[2] - grown[0] < count * 8 + 8 * MIB, grown
    report(
        f"E2, {count} listeners, told in {[round(each, 2) for each in took]} s, after each {grown} KiB", server, seen
    )


@pytest.mark.fault("E2")
@pytest.mark.engines
def test_E2_listeners_are_no_members_of_the_layers_groups(running_stack: Stack) -> None:
    stack = running_stack
    for server in stack.servers:  # each joins the groups with its first client
        stack.call("echo", server=server, text="here").result()
    before = stack.ask("group members")
    if before is None:
        pytest.skip("this site has no layer between processes")
    assert list(before.values()) == [1] * len(stack.servers)

    async def scenario() -> None:
        crowds = [Crowd(server.port) for server in stack.servers]
        streams = [stream for crowd in crowds for stream in await open_streams(crowd, 50)]
        await hear_of_a_change(stack, streams)
        assert await asyncio.to_thread(stack.ask, "group members") == before
        for crowd in crowds:
            await crowd.leave()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
    assert stack.ask("group members") == before
    stack.settle()


@pytest.fixture
def unlimited(engines: dict[str, str], tmp_path: Path) -> Iterator[Stack]:
    """A server and a worker, embedded or on PostgreSQL and Redis, with limits that the test does not reach."""
    limits = {"REQUEST_BURST": 100_000, "MAX_OPEN_REQUESTS_PER_PRINCIPAL": 200, "MAX_QUEUED_REQUESTS": 1_000}
    environment = {**engines, "MCP_TEST_SETTINGS": json.dumps(limits)}
    with layouts.apart(tmp_path, environment, settings="tests.acceptance.narrow_settings") as stack:
        yield stack


@pytest.mark.timeout(300)
def test_each_call_of_a_crowd_is_one_task_and_is_answered_once(unlimited: Stack) -> None:
    [server] = unlimited.servers
    answered: list[str] = []

    async def one(name: str) -> None:
        crowd = Crowd(server.port)
        reader, writer = await crowd.send(b"")
        for number in range(20):
            said = f"{name}-{number}"
            # Without an event stream, the response has a length however slow the machine is.
            writer.write(request_bytes(call("echo", text=said), accept=JSON))
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            assert length is not None, head
            body = json.loads(await reader.readexactly(int(length[1])))
            assert text(body["result"]) == said
            answered.append(said)
        await crowd.leave()

    async def scenario() -> None:
        await asyncio.gather(*(one(f"{number}") for number in range(32)))

    unlimited.call("echo", text="awake").result()
    with watching(server):
        asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
    assert len(set(answered)) == len(answered) == 640
    assert unlimited.ask("tasks taken") == {"mcp_app.run": 641}
    eventually(lambda: unlimited.ask("ends") == {"completed 1 None": 641}, "each ran once and ended well")


@pytest.fixture
def crowded(engines: dict[str, str], tmp_path: Path) -> Iterator[Stack]:
    """A server and two workers, embedded or on PostgreSQL and Redis, that accept hundreds of calls of one caller."""
    limits = {"REQUEST_BURST": 100_000, "MAX_OPEN_REQUESTS_PER_PRINCIPAL": 1_000, "MAX_QUEUED_REQUESTS": 1_000}
    # While 300 calls arrive on two shared cores, a heartbeat and an answer of the broker may be late by many seconds.
    limits["PUBLISH_TIMEOUT"] = 20
    environment = {**engines, "MCP_TEST_SETTINGS": json.dumps(limits), "MCP_TEST_LOST_AFTER": "60"}
    with layouts.apart(tmp_path, environment, workers=2, settings="tests.acceptance.narrow_settings") as stack:
        yield stack


@pytest.mark.fault("I2")
@pytest.mark.timeout(300)
def test_I2_when_300_clients_leave_at_once_no_queued_call_begins_afterwards(crowded: Stack) -> None:
    [server] = crowded.servers
    steps = request_bytes(call("sleep_sync", seconds=600, path="/dev/null", step=0.01))

    def stored() -> str:
        return f"all calls are stored; open are {len(crowded.ask('open requests'))}, ended {crowded.ask('ends')}"

    async def storm() -> float:
        crowd = Crowd(server.port)
        try:
            await asyncio.gather(*(crowd.send(steps) for _ in range(300)))
            await asyncio.to_thread(eventually, lambda: len(crowded.ask("open requests")) == 300, stored, PATIENCE)
        finally:
            await crowd.leave()
        return time.time()

    for _ in range(3):
        before = crowded.ask("attempts")
        left_at = asyncio.run(asyncio.wait_for(storm(), 2 * PATIENCE))
        eventually(lambda: not crowded.ask("open requests"), "all calls are cancelled", PATIENCE)
        late = [at - left_at for at in crowded.ask("begun", tool="sleep_sync") if at > left_at]
        assert not [seconds for seconds in late if seconds > 1.0], late
        assert len(late) <= 2 * crowded.slots, late
        assert crowded.ask("attempts") - before == 300
    # Served after all messages that the storms have left in the queue.
    assert crowded.call("echo", text="served").response.status == 200


@pytest.mark.fault("B10")
@pytest.mark.timeout(300)
def test_B10_a_storm_of_cancellations_is_limited_and_writes_few_rows(limited_on_each: Stack) -> None:
    limited = limited_on_each
    [server] = limited.servers
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "unknown", "reason": "x"}}
    unknown = message("tasks/cancel", taskId="unknown")
    unknown["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {
        "extensions": {"io.modelcontextprotocol/tasks": {}}
    }
    storm = [request_bytes(body), request_bytes(unknown, **{"Mcp-Name": "unknown"})]
    statuses: Counter[bytes] = Counter()

    async def one(number: int, crowd: Crowd) -> None:
        reader, writer = await crowd.send(b"")
        for _ in range(100):
            writer.write(storm[number % 2])
            head = await reader.readuntil(b"\r\n\r\n")
            statuses[head.split()[1]] += 1
            length = re.search(rb"content-length: (\d+)", head.lower())
            assert length is not None
            await reader.readexactly(int(length[1]))
            if head.split()[1] == b"429":
                assert b"retry-after: 1\r\n" in head.lower()

    async def scenario() -> None:
        crowd = Crowd(server.port)
        await asyncio.gather(*(one(number, crowd) for number in range(20)))
        await crowd.leave()

    # The first storm is not measured, because the server still imports modules and opens connections.
    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
    statuses.clear()
    before = limited.ask("attempts")
    began_at = time.monotonic()
    with watching(server) as seen:
        asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
    took = time.monotonic() - began_at
    assert statuses.keys() == {b"202", b"200", b"429"}
    assert statuses[b"202"] + statuses[b"200"] <= 20 + 20 * (took + 1)
    assert limited.ask("attempts") - before <= 12
    assert seen.grown < 30 * MIB
    report(f"B10, 2000 cancellations in {took:.1f} s, {dict(statuses)}", server, seen)
    eventually(lambda: limited.call("echo", text="served").response.status == 200, "it is served again")


@pytest.mark.timeout(300)
def test_callers_beyond_the_limits_who_come_back_when_they_are_told_to_are_all_served(limited: Stack) -> None:
    [server] = limited.servers
    refusals: Counter[int] = Counter()

    async def one() -> None:
        while True:
            crowd = Crowd(server.port)
            reader, _ = await crowd.send(request_bytes(call("progress", steps=2, delay=0.1), Connection="close"))
            answer = await reader.read()
            await crowd.leave()
            status = int(answer.split()[1])
            if status == 200:
                assert b"2 steps" in answer
                return
            refusals[status] += 1
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            assert error["code"] == status
            wait = re.search(rb"retry-after: (\d+)", answer.lower())
            assert wait is not None
            assert int(wait[1]) == error["data"]["retryAfter"]
            await asyncio.sleep(int(wait[1]))

    async def scenario() -> None:
        await asyncio.gather(*(one() for _ in range(30)))

    with watching(server):
        asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
    assert refusals.keys() == {429, 503}


@pytest.mark.fault("F2", "F10")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [5.0, pytest.param(60.0, marks=pytest.mark.nightly)])
def test_clients_without_manners_cost_no_row_no_memory_and_no_warning(tmp_path: Path, seconds: float) -> None:
    with layouts.narrow(tmp_path, HEAD_TIMEOUT=2.0, BODY_TIMEOUT=2.0, REQUEST_BURST=100_000) as stack:
        [server] = stack.servers
        stack.call("echo", text="awake").result()
        rows, said = stack.ask("requests"), len(server.program.output())

        async def scenario() -> int:
            until = time.monotonic() + seconds
            return sum(await asyncio.gather(*(Hostile(seed).run(Crowd(server.port), until) for seed in range(20))))

        with watching(server) as seen:
            sent = asyncio.run(asyncio.wait_for(scenario(), seconds + PATIENCE))
        assert sent > 100
        log = server.program.output()[said:]
        assert not re.findall(r"(?m)^.*(?:WARNING|ERROR|CRITICAL|Traceback).*$", log), log[-3_000:]
        assert stack.ask("requests") == rows
        assert seen.grown < 60 * MIB, seen.grown
        report(f"{sent} requests without manners in {seconds:g} s", server, seen)
