"""`RowWatcher` sends few queries, none without clients, and goes on after the database has failed."""

import asyncio
import subprocess
import sys
import threading
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from mcp_app.lifecycle.liveness import processes, wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import observation
from mcp_app.models import Process, Request
from mcp_app.states import Cause, ProcessRole
from mcp_app.transport import server
from mcp_app.transport.watching import row_watcher
from tests.support import rows
from tests.support.asgi_client import PATIENCE, call, message, post, run
from tests.support.failing_database import away_at_first
from tests.support.worker import Worker, eventually, in_thread, row


@pytest.fixture
def looks(monkeypatch) -> list[int]:
    """Returns a list to which each query adds the number of its requests."""
    asked: list[int] = []
    observe = observation.observe

    def counted(watched: Any) -> Any:
        asked.append(len(watched))
        return observe(watched)

    monkeypatch.setattr(observation, "observe", counted)
    return asked


async def test_burst_of_hints_is_one_query_and_at_most_one_more(worker: Worker, looks: list[int], configure) -> None:
    configure(POLL_INTERVAL=30.0)
    client = await post(call())
    await worker.claim()
    name = server.current().identity.boot_id.hex
    for _ in range(100):
        assert wakeups.hint(name)
    await eventually(lambda: looks)
    assert len(looks) <= 2
    await client.leave()


async def test_all_watched_requests_are_asked_for_in_one_query(worker: Worker, looks: list[int], configure) -> None:
    configure(POLL_INTERVAL=30.0)
    clients = [await post(call()) for _ in range(3)]
    for _ in clients:
        await worker.claim()
    assert wakeups.hint(server.current().identity.boot_id.hex)
    await eventually(lambda: looks)
    assert looks[0] == 3
    for client in clients:
        await client.leave()


async def test_a_hint_that_names_a_request_is_a_look_at_that_alone(worker: Worker, looks: list[int], configure) -> None:
    configure(POLL_INTERVAL=30.0)
    clients = [await post(call()) for _ in range(3)]
    claimed = [await worker.claim() for _ in clients]
    await worker.finish(claimed[1])
    await eventually(lambda: looks)
    assert looks == [1]
    for client in clients:
        await client.leave()


async def test_progress_of_a_call_does_not_wait_for_the_crowd_of_others(worker: Worker, configure) -> None:
    configure(POLL_INTERVAL=600.0)
    told = await post(call(meta={"progressToken": "t"}))
    request_id = await worker.claim()
    others = [await post(call()) for _ in range(8)]
    await worker.report(request_id, 1)
    await told.head()
    assert (await told.next_message())["params"]["progress"] == 1
    await worker.report(request_id, 2)
    assert (await told.next_message())["params"]["progress"] == 2
    for client in (told, *others):
        await client.leave()


@pytest.mark.parametrize("pause", [0.01, 0.0], ids=["now and then", "always"])
async def test_hints_however_many_keep_no_lost_one_from_being_made_up_for(
    worker: Worker, configure, monkeypatch, pause: float
) -> None:
    configure(POLL_INTERVAL=0.2)
    client = await post(call())
    request_id = await worker.claim()
    other = await post(call())
    named = await worker.claim()
    own = server.current().row_watcher
    monkeypatch.setattr(wakeups, "wake_waiting", lambda row: None)
    await worker.finish(request_id)
    answer = asyncio.create_task(client.json())
    while not answer.done():
        own.wake({named})
        await asyncio.sleep(pause)
    assert "result" in await answer
    await client.leave()
    await other.leave()


async def test_nothing_runs_when_nobody_waits(worker: Worker, configure) -> None:
    configure(POLL_INTERVAL=0.01, HEARTBEAT_INTERVAL=0.01, SUPERVISION_INTERVAL=0.01)
    client = await post(call())
    request_id = await worker.claim()
    await worker.finish(request_id)
    await client.json()
    await eventually(lambda: Request.objects.get(pk=request_id).delivered_at)
    await client.leave()
    left = {task.get_name() for task in asyncio.all_tasks()} & {"mcp-row-watcher", "mcp-heartbeat", "mcp-supervision"}
    assert not left


@pytest.mark.fault("D2")
async def test_result_is_delivered_after_the_database_failed(worker: Worker, monkeypatch, configure) -> None:
    configure(POLL_INTERVAL=0.01)
    monkeypatch.setattr(row_watcher, "RETRY_SECONDS", 0.01)
    failures = away_at_first(monkeypatch, observation, "observe")
    client = await post(call())
    await worker.finish(await worker.claim())
    assert "result" in await client.json()
    assert next(failures, None) is None


async def test_rows_are_polled_tightly_where_no_wake_up_can_arrive(worker: Worker, monkeypatch, configure) -> None:
    configure(POLL_INTERVAL=30.0, POLL_INTERVAL_WITHOUT_WAKE_UP=0.01)

    def impossible(name: str) -> None:
        raise OSError("no unix sockets here")

    monkeypatch.setattr(wakeups, "listening_socket", impossible)
    client = await post(call())
    await worker.finish(await worker.claim())
    assert "result" in await client.json()


async def test_server_process_is_known_to_live_before_a_row_names_it(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.receive()

    def ensure_aliveed() -> UUID | None:
        named = Request.objects.get(pk=request_id).server
        return Process.objects.get(boot_id=named, role=ProcessRole.SERVER).boot_id

    assert await in_thread(ensure_aliveed) == server.current().identity.boot_id
    await client.leave()


@pytest.mark.fault("I5")
def test_I5_a_server_process_cancels_the_calls_of_a_killed_predecessor_with_its_first_call(worker: Worker) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as program:
        program.wait(30)
    killed = Identity(ProcessRole.SERVER, pid=program.pid)
    processes.beat(killed)
    left = rows.queued(server=killed.boot_id)

    async def scenario() -> None:
        client = await post(call())
        await worker.receive()
        assert (await row(left.pk)).cancel_cause == Cause.LOST_SERVER
        await client.leave()

    run(scenario())


@pytest.mark.parametrize("body", [call(), message("subscriptions/listen", notifications={"toolsListChanged": True})])
async def test_heart_beats_while_somebody_waits(worker: Worker, configure, body: Any) -> None:
    configure(HEARTBEAT_INTERVAL=0.02)

    def heartbeat() -> Any:
        return Process.objects.filter(role=ProcessRole.SERVER).values_list("heartbeat_at", flat=True).first()

    client = await post(body)
    first = await eventually(heartbeat)
    await eventually(lambda: heartbeat() > first)
    await client.leave()


async def test_waiting_client_learns_that_its_worker_went_silent(worker: Worker, configure) -> None:
    configure(LOST_AFTER=0.3, HEARTBEAT_INTERVAL=0.05, SUPERVISION_INTERVAL=0.05)
    client = await post(call())
    await worker.claim()
    result = (await client.json())["result"]
    assert result["isError"] is True
    assert "worker process" in result["content"][0]["text"]


async def test_who_cannot_begin_to_listen_is_not_waited_for(monkeypatch) -> None:
    async def away() -> None:
        raise OperationalError("the database is away")

    here = server.current()
    monkeypatch.setattr(here.upkeep, "ensure_alive", away)
    with pytest.raises(OperationalError):
        await here.row_watcher.listen(("tools",))
    assert "mcp-row-watcher" not in {task.get_name() for task in asyncio.all_tasks()}


@pytest.mark.fault("D4")
async def test_a_heart_goes_on_beating_where_the_network_forgot_one_connection(
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
    client = await post(call())
    try:
        await eventually(lambda: len(beats) > 4)
    finally:
        go_on.set()
    await client.leave()
