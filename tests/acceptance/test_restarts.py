"""Restarts of servers and workers: clients resume their sessions, calls and tasks at the new processes."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.situations import STEP
from tests.acceptance.test_input import kill_workers
from tests.acceptance.test_tasks import ask, create, ended
from tests.support.site.layouts import closing
from tests.support.site.legacy_wire import Client, events, progress_until
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import text
from tests.support.waiting import eventually

STEPS = 40
"""Progress reports of a call, 0.1 s apart."""
CHANGED = "notifications/tools/list_changed"

by_any_end = pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])


def replace(stack: Stack, server: Server, end: signal.Signals) -> Server:
    server.program.signal(end)
    server.program.wait()
    return stack.start_again(server)


@pytest.fixture
def servers(stack: Stack) -> Iterator[list[Server]]:
    """One server of each kind. A test replaces them in the list; the list's servers are stopped afterwards."""
    servers = stack.start_extra_servers()
    yield servers
    for server in servers:
        server.stop()


@by_any_end
def test_a_session_and_its_call_are_resumed_after_a_restart_of_their_server(
    stack: Stack, servers: list[Server], end: signal.Signals
) -> None:
    for number, server in enumerate(servers):
        client = Client.opened(stack, server)
        listening = events(client.get(server))
        start = next(event for event in listening if event)
        call = client.call("progress", server, token="t", steps=STEPS, delay=0.1)
        seen = progress_until(events(call), 3)
        servers[number] = again = replace(stack, server, end)
        assert text(stack.call("trigger_change", server=stack.servers[0]).result())
        replayed = [event for event in events(client.get(again, seen[-1].id or "")) if event]
        told = [event.progress for event in seen + replayed if event.progress]
        assert told == list(range(1, STEPS + 1))
        assert replayed[-1].message is not None
        assert replayed[-1].message["id"] == call.request_id
        assert text(replayed[-1].message["result"]) == f"{STEPS} steps"
        assert client.request("ping", again).result() == {}
        missed = events(client.get(again, start.id or ""))
        assert next(event for event in missed if event and event.message).message["method"] == CHANGED
        assert client.delete(again) == 200
        assert [event for event in missed if event] == []
        row = stack.ended(call)
        assert (row.status, row.attempts) == ("completed", [])


@by_any_end
def test_a_task_is_followed_through_a_restart_of_its_server(
    stack: Stack, servers: list[Server], end: signal.Signals, tmp_path: Path
) -> None:
    for number, server in enumerate(servers):
        path = tmp_path / str(number)
        task_id, row, _ = create(stack, "step_as_task", server, seconds=4.0, path=str(path), step=STEP)
        eventually(path.exists, "it takes a step")
        servers[number] = again = replace(stack, server, end)
        assert text(ended(stack, task_id, again)["result"]) == f"{round(4.0 / STEP)} steps"
        assert [int(line.split()[1]) for line in path.read_text().splitlines()] == list(range(round(4.0 / STEP)))
        assert stack.ask("request", id=row.id)["attempts"] == []


@pytest.mark.broker
def test_a_task_that_asks_outlives_the_death_of_every_worker_and_one_that_runs_is_lost(
    stack: Stack, steps: Path
) -> None:
    asking, _, _ = create(stack, "confirm_delete", filename="a.txt")
    eventually(lambda: ask(stack, "tasks/get", asking)["status"] == "input_required", "it asks")
    running, row, _ = create(stack, "step_as_task", seconds=60.0, path=str(steps), step=STEP)
    eventually(steps.exists, "it takes a step")
    kill_workers(stack)
    lost = ended(stack, running)
    assert (lost["status"], lost["result"]["isError"]) == ("completed", True)
    assert "not run again" in text(lost["result"])
    assert stack.ask("request", id=row.id)["story"].count("running") == 1
    [key] = ask(stack, "tasks/get", asking)["inputRequests"]
    ask(stack, "tasks/update", asking, inputResponses={key: {"action": "accept", "content": {"confirm": True}}})
    assert text(ended(stack, asking)["result"]) == "a.txt: accept"


def test_a_task_is_finished_by_a_worker_that_is_stopped_and_begun_once_by_the_next(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with closing(Stack(tmp_path, {}, workers=1)) as site:
        site.serve_from(site.start_embedded("--no-worker"))
        site.start_worker()
        site.restore_workers()
        finished, _, _ = create(site, "step_as_task", seconds=0.5, path=str(first), step=STEP)
        eventually(first.exists, "it takes a step")
        assert site.worker_programs.pop().stop() == 0
        assert text(ended(site, finished)["result"]) == f"{round(0.5 / STEP)} steps"
        waiting, row, _ = create(site, "step_as_task", seconds=0.5, path=str(second), step=STEP)
        assert ask(site, "tasks/get", waiting)["status"] == "working"
        assert not second.exists()
        site.start_worker()
        assert text(ended(site, waiting)["result"]) == f"{round(0.5 / STEP)} steps"
        assert len(second.read_text().splitlines()) == round(0.5 / STEP)
        assert site.ask("request", id=row.id)["story"].count("running") == 1
