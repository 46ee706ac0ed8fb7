"""Clients of 2025-11-25 and before, with real processes. Any server can serve their sessions: no sticky routing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_cancelled, assert_stopped
from tests.support.site.layouts import closing, two_servers
from tests.support.site.legacy_wire import Client, events, progress_until
from tests.support.site.stack import Stack
from tests.support.site.wire import JSON, text
from tests.support.waiting import eventually

BEYOND_LOST = 6.0
"""Seconds of work: longer than the time after which requests of a silent server are cancelled."""
STEPS = 40
"""Progress reports of a call, 0.1 s apart: together long enough for a server to end during the call."""


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    client = Client.opened(stack, stack.servers[0])
    yield client
    # Otherwise the session's calls would go on.
    assert client.delete(stack.servers[0]) in (200, 404)


def test_a_session_is_answered_by_the_other_process(stack: Stack, client: Client) -> None:
    with two_servers(stack) as (first, other):
        for server in (other, first):
            assert client.request("ping", server).result() == {}
            assert text(client.call("echo", server, text="hello").result()) == "hello"
        assert client.delete(other) == 200
        for server in (first, other):
            assert client.request("ping", server).response.status == 404


def test_cancelled_at_the_other_process_stops_the_call_and_ends_its_stream(
    stack: Stack, client: Client, steps: Path
) -> None:
    with two_servers(stack) as (first, other):
        call = client.call("sleep_sync", first, seconds=LONG, path=str(steps), step=STEP)
        stack.running(call)
        eventually(steps.exists, "it takes a step")
        status = client.notify("notifications/cancelled", other, requestId=call.request_id, reason="enough")
        assert status == 202
        assert [event for event in events(call) if event and event.message] == []
        row = stack.ended(call)
        assert_cancelled(row, cause="client", stage=INTERRUPT, actor="anonymous", reason="enough")
        assert_stopped(row, steps)


@pytest.mark.fault("A15")
@pytest.mark.parametrize("kind", ["stopped", "killed"])
def test_a_call_is_resumed_at_another_process_after_its_server_ended(stack: Stack, client: Client, kind: str) -> None:
    [server, *others] = stack.start_extra_servers()
    for other in others:
        other.stop()
    call = client.call("progress", server, token="t", steps=STEPS, delay=0.1)
    stream = events(call)
    seen = progress_until(stream, 3)
    if kind == "stopped":
        server.stop()
        rest = [event for event in stream if event]
        assert rest.pop().retry
        seen += rest
    else:
        server.program.kill()
    call.close()
    resumed = client.get(stack.servers[0], seen[-1].id or "")
    replayed = [event for event in events(resumed) if event]
    told = [event.progress for event in seen + replayed if event.progress]
    assert told == list(range(1, STEPS + 1))
    assert replayed[-1].message is not None
    assert text(replayed[-1].message["result"]) == f"{STEPS} steps"
    assert stack.ended(call).status == "completed"


@pytest.mark.fault("A15", "H5")
def test_leaving_without_a_session_cancels(stack: Stack, steps: Path) -> None:
    stateless = Client(stack)
    for server in stack.servers:
        path = steps.with_name(f"steps-{server.port}")
        call = stateless.call("sleep_sync", server, accept=JSON, seconds=LONG, path=str(path), step=STEP)
        stack.running(call)
        eventually(path.exists, "it takes a step")
        call.close()
        row = stack.ended(call)
        assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
        assert_stopped(row, path)


@pytest.mark.fault("A15")
def test_leaving_without_a_session_stops_nothing_where_the_site_says_so(tmp_path: Path) -> None:
    with closing(Stack(tmp_path, {"MCP_TEST_SESSIONLESS_GOES_ON": "1"}, workers=1)) as site:
        site.serve_from(site.start_embedded("--no-worker"))
        killed = site.start_embedded("--no-worker")
        site.start_worker()
        site.restore_workers()
        calls = []
        for server in (site.servers[0], killed):
            path = tmp_path / f"steps-{server.port}"
            call = Client(site).call("sleep_sync", server, accept=JSON, seconds=BEYOND_LOST, path=str(path), step=STEP)
            eventually(path.exists, "it takes a step")
            calls.append((call, path))
        calls[0][0].close()
        killed.program.kill()
        for call, path in calls:
            row = site.ended(call, 3 * BEYOND_LOST)
            assert (row.status, row.attempts) == ("completed", [])
            assert len(path.read_text().splitlines()) == round(BEYOND_LOST / STEP)


def test_a_change_is_told_once_however_many_streams_and_processes_there_are(stack: Stack, client: Client) -> None:
    with two_servers(stack) as servers:
        streams = []
        for server in (*servers, *servers):
            streams.append(events(client.get(server)))
            # One after another, because the newest stream gets the notification.
            assert next(event for event in streams[-1] if event).message is None
        told = []
        for _ in range(3):
            float(text(client.call("trigger_change", servers[0]).result()))
            told.append(next(event for event in streams[-1] if event).message)
        assert [message and message["method"] for message in told] == ["notifications/tools/list_changed"] * 3
        client.delete(servers[0])
        for stream in streams:
            assert [event for event in stream if event] == []
