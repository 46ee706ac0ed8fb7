"""The tail: few queries, none when nobody waits, and no giving up when the database does."""

import asyncio
import threading
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from mcp_app.lifecycle import observation, processes, wakeups
from mcp_app.models import Process, Request
from mcp_app.states import ProcessRole
from mcp_app.transport import server, tail
from mcp_app.transport.gathered import CROWD
from tests.faults.failing_database import away_at_first
from tests.transport.client import PATIENCE, call, message, post, run
from tests.transport.worker import Worker, eventually, in_thread


@pytest.fixture
def looks(monkeypatch) -> list[int]:
    """How many requests each query asked for."""
    asked: list[int] = []
    observe = observation.observe

    def counted(watched: Any) -> Any:
        asked.append(len(watched))
        return observe(watched)

    monkeypatch.setattr(observation, "observe", counted)
    return asked


def test_burst_of_hints_is_one_query_and_at_most_one_more(worker: Worker, looks: list[int], configure) -> None:
    configure(POLL_INTERVAL=30.0)

    async def scenario() -> None:
        client = await post(call())
        await worker.claim()
        name = server.current().identity.boot_id.hex
        for _ in range(100):
            assert wakeups.hint(name)
        await eventually(lambda: looks)
        assert len(looks) <= 2
        await client.leave()

    run(scenario())


def test_all_watched_requests_are_asked_for_in_one_query(worker: Worker, looks: list[int], configure) -> None:
    configure(POLL_INTERVAL=30.0)

    async def scenario() -> None:
        clients = [await post(call()) for _ in range(3)]
        for _ in clients:
            await worker.claim()
        assert wakeups.hint(server.current().identity.boot_id.hex)
        await eventually(lambda: looks)
        assert looks[0] == 3
        for client in clients:
            await client.leave()

    run(scenario())


def test_a_hint_that_names_a_request_is_a_look_at_that_alone(worker: Worker, looks: list[int], configure) -> None:
    configure(POLL_INTERVAL=30.0)

    async def scenario() -> None:
        clients = [await post(call()) for _ in range(3)]
        claimed = [await worker.claim() for _ in clients]
        await worker.finish(claimed[1])
        await eventually(lambda: looks)
        assert looks == [1]
        for client in clients:
            await client.leave()

    run(scenario())


def test_where_a_crowd_waits_what_moves_within_a_moment_is_read_by_one_query(
    worker: Worker, looks: list[int], configure, monkeypatch
) -> None:
    configure(POLL_INTERVAL=30.0)
    monkeypatch.setattr(tail, "LOOKS_APART", 0.5)

    async def scenario() -> None:
        clients = [await post(call()) for _ in range(2 * CROWD)]
        claimed = [await worker.claim() for _ in clients]
        looks.clear()
        for request_id in claimed:
            await worker.finish(request_id)
        for client in clients:
            assert "result" in await client.json()
        assert len(looks) <= 2
        assert sum(looks) == 2 * CROWD

    run(scenario())


def test_who_wants_to_hear_of_a_call_meanwhile_does_not_wait_for_what_the_crowd_does(
    worker: Worker, configure, monkeypatch
) -> None:
    configure(POLL_INTERVAL=600.0)
    monkeypatch.setattr(tail, "LOOKS_APART", 2 * PATIENCE)
    monkeypatch.setattr(tail, "EVENTS_APART", 0.01)

    async def scenario() -> None:
        told = await post(call(meta={"progressToken": "t"}))
        request_id = await worker.claim()
        others = [await post(call()) for _ in range(CROWD)]
        await worker.report(request_id, 1)
        await told.head()
        assert (await told.next_message())["params"]["progress"] == 1
        await worker.report(request_id, 2)
        assert (await told.next_message())["params"]["progress"] == 2
        for client in (told, *others):
            await client.leave()

    run(scenario())


@pytest.mark.parametrize("pause", [0.01, 0.0], ids=["now and then", "always"])
def test_hints_however_many_keep_no_lost_one_from_being_made_up_for(
    worker: Worker, configure, monkeypatch, pause: float
) -> None:
    configure(POLL_INTERVAL=0.2)

    async def scenario() -> None:
        client = await post(call())
        request_id = await worker.claim()
        other = await post(call())
        named = await worker.claim()
        own = server.current().tail
        monkeypatch.setattr(wakeups, "wake_waiting", lambda row: None)
        await worker.finish(request_id)
        answer = asyncio.create_task(client.json())
        while not answer.done():
            own.look({named})
            await asyncio.sleep(pause)
        assert "result" in await answer
        await client.leave()
        await other.leave()

    run(scenario())


def test_nothing_runs_when_nobody_waits(worker: Worker, configure) -> None:
    configure(POLL_INTERVAL=0.01, HEARTBEAT_INTERVAL=0.01, SUPERVISION_INTERVAL=0.01)

    async def scenario() -> None:
        client = await post(call())
        request_id = await worker.claim()
        await worker.finish(request_id)
        await client.json()
        await eventually(lambda: Request.objects.get(pk=request_id).delivered_at)
        await client.leave()
        left = {task.get_name() for task in asyncio.all_tasks()} & {"mcp-tail", "mcp-heartbeat", "mcp-supervision"}
        assert not left

    run(scenario())


@pytest.mark.fault("D2")
def test_result_is_delivered_after_the_database_failed(worker: Worker, monkeypatch, configure) -> None:
    configure(POLL_INTERVAL=0.01)
    monkeypatch.setattr(tail, "RETRY_SECONDS", 0.01)
    failures = away_at_first(monkeypatch, observation, "observe")

    async def scenario() -> None:
        client = await post(call())
        await worker.finish(await worker.claim())
        assert "result" in await client.json()
        assert next(failures, None) is None

    run(scenario())


def test_rows_are_polled_tightly_where_no_wake_up_can_arrive(worker: Worker, monkeypatch, configure) -> None:
    configure(POLL_INTERVAL=30.0, POLL_INTERVAL_WITHOUT_WAKE_UP=0.01)

    def impossible(name: str) -> None:
        raise OSError("no unix sockets here")

    monkeypatch.setattr(wakeups, "listening_socket", impossible)

    async def scenario() -> None:
        client = await post(call())
        await worker.finish(await worker.claim())
        assert "result" in await client.json()

    run(scenario())


def test_server_process_is_known_to_live_before_a_row_names_it(worker: Worker) -> None:
    async def scenario() -> None:
        client = await post(call())
        request_id = await worker.receive()

        def vouched() -> UUID | None:
            named = Request.objects.get(pk=request_id).server
            return Process.objects.get(boot_id=named, role=ProcessRole.SERVER).boot_id

        assert await in_thread(vouched) == server.current().identity.boot_id
        await client.leave()

    run(scenario())


@pytest.mark.parametrize("body", [call(), message("subscriptions/listen", notifications={"toolsListChanged": True})])
def test_heart_beats_while_somebody_waits(worker: Worker, configure, body: Any) -> None:
    configure(HEARTBEAT_INTERVAL=0.02)

    def heartbeat() -> Any:
        return Process.objects.filter(role=ProcessRole.SERVER).values_list("heartbeat_at", flat=True).first()

    async def scenario() -> None:
        client = await post(body)
        first = await eventually(heartbeat)
        await eventually(lambda: heartbeat() > first)
        await client.leave()

    run(scenario())


def test_waiting_client_learns_that_its_worker_went_silent(worker: Worker, configure) -> None:
    configure(LOST_AFTER=0.3, HEARTBEAT_INTERVAL=0.05, SUPERVISION_INTERVAL=0.05)

    async def scenario() -> None:
        client = await post(call())
        await worker.claim()
        result = (await client.json())["result"]
        assert result["isError"] is True
        assert "worker process" in result["content"][0]["text"]

    run(scenario())


def test_who_cannot_begin_to_listen_is_not_waited_for(monkeypatch) -> None:
    async def away() -> None:
        raise OperationalError("the database is away")

    async def scenario() -> None:
        here = server.current()
        monkeypatch.setattr(here.upkeep, "vouch", away)
        with pytest.raises(OperationalError):
            await here.tail.listen(("tools",))
        assert "mcp-tail" not in {task.get_name() for task in asyncio.all_tasks()}

    run(scenario())


@pytest.mark.fault("D4")
def test_a_heart_goes_on_beating_where_the_network_forgot_one_connection(
    worker: Worker, configure: Any, monkeypatch: Any
) -> None:
    configure(HEARTBEAT_INTERVAL=0.02, LOST_AFTER=0.4)
    go_on = threading.Event()
    beat, beats = processes.beat, []

    def forgotten_once(identity: Any) -> None:
        beats.append(identity)
        if len(beats) == 2:
            go_on.wait(PATIENCE)
        beat(identity)

    monkeypatch.setattr(processes, "beat", forgotten_once)

    async def scenario() -> None:
        client = await post(call())
        try:
            await eventually(lambda: len(beats) > 4)
        finally:
            go_on.set()
        await client.leave()

    run(scenario())
