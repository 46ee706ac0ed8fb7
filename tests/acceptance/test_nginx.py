"""nginx with docs/deployment/nginx.conf in front of uvicorn and `mcp serve`: disconnects, streams, limits, headers."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance import nginx
from tests.acceptance.nginx import Front
from tests.acceptance.situations import INTERRUPT, LONG, RUNNING, STEP
from tests.acceptance.test_disconnect import LEAVE, assert_cancelled, assert_stopped
from tests.support.site import programs, wire
from tests.support.site.legacy_wire import Client as LegacyClient
from tests.support.site.services import missing
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import BOTH, JSON, Connection, message, text
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.engines,
    pytest.mark.parametrize("running_stack", ["engines"], indirect=True, scope="session"),
]

HUGE: Final = 50_000_000
ROOM_KIB: Final = 10_000
PIPELINED: Final = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n" + bytes(20_000)
LEAVINGS: Final = {**LEAVE, "half": Connection.half_close}
Start = Callable[..., AbstractContextManager[Front]]

[BLOCKING] = [each for each in RUNNING if each.name == "blocking"]


@pytest.fixture(scope="module")
def servers(running_stack: Stack) -> Iterator[Sequence[Server]]:
    """The two servers of the guide's nginx file, started by the guide's commands."""
    started = [running_stack.start_from_guide(program) for program in ("uvicorn", "python")]
    yield started
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def front(running_stack: Stack, servers: Sequence[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("front") / "nginx"
    try:
        with nginx.front(folder, servers, running_stack.environment) as started:
            yield started
    except nginx.NginxMissingError as error:
        missing(f"NO nginx, what it is to do was not tested: {error}")


@pytest.fixture
def start(running_stack: Stack, servers: Sequence[Server], front: Front, tmp_path: Path) -> Start:
    """Start another nginx, with other values of some directives."""
    return partial(nginx.front, tmp_path / "nginx", servers, running_stack.environment)


def taken(server: Server) -> int:
    """Return the number of connections that the server has open."""
    return len(programs.inodes_of_port(server.port) & programs.socket_inodes(server.program.pid)) - 1


def commence(stack: Stack, front: Front, accept: str, steps: Path) -> Connection:
    """Make a blocking call through nginx, and wait until it is in the middle of its work."""
    call = stack.call("sleep_sync", accept=accept, server=front, seconds=LONG, path=str(steps), step=STEP)
    stack.running(call)
    eventually(steps.exists, "it takes a step")
    assert accept == JSON or call.is_stream
    return call


@pytest.mark.fault("A5", "A6", "A12", "A16")
@pytest.mark.parametrize("accept", [BOTH, JSON], ids=["stream", "json"])
@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS)
def test_A16_leaving_nginx_stops_the_calls_at_both_servers(
    stack: Stack, front: Front, leave: Callable[[Connection], None], accept: str, tmp_path: Path
) -> None:
    calls = {path: commence(stack, front, accept, path) for path in (tmp_path / "first", tmp_path / "second")}
    assert len({stack.row(call).server for call in calls.values()}) == len(calls)
    for call in calls.values():
        leave(call)
    for path, call in calls.items():
        row = stack.ended(call)
        assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
        assert_stopped(row, path)


@pytest.mark.fault("A5")
@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS)
def test_A5_nginx_sees_the_end_of_a_client_that_sent_more_behind_its_call(
    stack: Stack, front: Front, leave: Callable[[Connection], None], tmp_path: Path
) -> None:
    calls = [commence(stack, front, JSON, tmp_path / name) for name in ("at one", "at the other")]
    assert len({stack.row(call).server for call in calls}) == len(calls)
    for call in calls:
        call.send_raw(PIPELINED)
        leave(call)
    for call in calls:
        assert_cancelled(stack.ended(call), cause="disconnect", stage=INTERRUPT, actor="anonymous")


@pytest.mark.fault("H6")
def test_H6_a_connection_whose_call_was_cancelled_serves_the_next_and_so_does_what_is_behind_it(
    stack: Stack, front: Front, tmp_path: Path
) -> None:
    for path in (tmp_path / "at one", tmp_path / "at the other"):
        left = commence(stack, front, JSON, path.with_suffix(".left"))
        cancelled = commence(stack, front, BOTH, path)
        left.close()
        stack.ask("cancel", request_id=stack.row(cancelled).id, reason="enough")
        assert cancelled.result()["isError"] is True
        for _ in range(4):
            cancelled.post(wire.call("echo", text="next"))
            assert text(cancelled.result()) == "next"
        assert stack.ended(left).status == "cancelled"


@pytest.mark.fault("H6")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"proxy_buffering": "on"},
        # HTTP/1.0 is the default of older versions of nginx, with which it could buffer the whole response.
        {"proxy_buffering": "on", "proxy_http_version": "1.0"},
    ],
    ids=["unbuffered", "buffered", "buffered-1.0"],
)
def test_H6_events_come_while_the_tool_runs_whatever_nginx_would_buffer(
    stack: Stack, start: Start, changes: dict[str, str]
) -> None:
    with start(**changes) as front:
        for _ in range(2):
            body = message(
                "tools/call", name="progress", arguments={"steps": 4, "delay": 0.25}, meta={"progressToken": 1}
            )
            call = stack.post(body, server=front)
            messages = call.messages()
            assert next(messages)["params"]["progress"] == 1
            assert stack.row(call).status == "running"
            *told, answer = messages
            assert [each["params"]["progress"] for each in told] == [2, 3, 4]
            assert text(answer["result"]) == "4 steps"


@pytest.mark.fault("H6", "A16")
def test_H6_heartbeats_keep_a_stream_open_and_a_json_answer_needs_the_patience_that_the_file_has(
    stack: Stack, start: Start, steps: Path
) -> None:
    with start(proxy_read_timeout="2s") as front:
        silent = stack.call("sleep_sync", server=front, seconds=4, path=str(steps), step=0.5)
        json_only = stack.call("sleep_sync", accept=JSON, server=front, seconds=LONG, path="/dev/null")
        assert json_only.response.status == 504
        assert_cancelled(stack.ended(json_only), cause="disconnect", stage=INTERRUPT, actor="anonymous")
        assert text(silent.result()) == "8 steps"


@pytest.mark.fault("F1")
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_F1_nginx_refuses_a_huge_body_in_constant_memory_and_no_server_sees_it(
    stack: Stack, servers: Sequence[Server], front: Front, chunked: bool
) -> None:
    assert text(stack.call("echo", server=front, text="warm").result()) == "warm"
    before = [front.peak_memory(), *(programs.peak_memory(server.program.pid) for server in servers)]
    call = stack.connect(front)
    call.send_until_refused(HUGE, chunked=chunked)
    assert call.response.status == 413
    assert json.loads(call.response.read())["error"]["code"] == 413
    after = [front.peak_memory(), *(programs.peak_memory(server.program.pid) for server in servers)]
    assert all(now - then < ROOM_KIB for then, now in zip(before, after, strict=True)), (before, after)


@pytest.mark.fault("F10", "A1")
def test_F10_a_slow_body_is_nginxs_to_wait_for_and_it_does_not_wait_for_ever(
    stack: Stack, servers: Sequence[Server], start: Start
) -> None:
    before = stack.ask("requests")
    with start(client_body_timeout="1s") as front:
        open_before = [taken(server) for server in servers]
        call = stack.connect(front)
        call.send_part(b'{"jsonrpc": ', promised=1000)
        call.send_raw(b'"2.0"')
        assert call.closed_by_peer()
        assert all(taken(server) <= then for server, then in zip(servers, open_before, strict=True))
    assert stack.ask("requests") == before


@pytest.mark.fault("F10")
def test_F10_headers_beyond_the_limit_reach_no_server(stack: Stack, front: Front) -> None:
    call = stack.post(wire.call("echo", text="refused"), server=front, headers={"X-Long": "x" * 16 * 1024})
    assert call.response.status == 400


@pytest.mark.fault("G2")
def test_G2_what_a_client_says_of_hosts_and_roots_ends_at_nginx(stack: Stack, front: Front) -> None:
    for host, status in (("localhost", 200), ("evil.test", 403)):
        fields = {"Host": host, "X-Forwarded-Host": "localhost", "Daphne-Root-Path": "/mcp"}
        for _ in range(2):
            answer = stack.post(wire.call("echo", text="here"), server=front, headers=fields)
            assert answer.response.status == status
            answer.response.read()


@pytest.mark.fault("A15", "H3")
def test_a_session_and_its_cancellation_need_no_stickiness(stack: Stack, front: Front, tmp_path: Path) -> None:
    client = LegacyClient.opened(stack, front)
    for number in range(6):
        assert text(client.call("echo", front, text=str(number)).result()) == str(number)
    for path in (tmp_path / "at one", tmp_path / "at the other"):
        call = client.call("sleep_sync", front, seconds=LONG, path=str(path), step=STEP)
        stack.running(call)
        eventually(path.exists, "it takes a step")
        assert client.notify("notifications/cancelled", front, requestId=call.request_id) == 202
        row = stack.ended(call)
        assert_cancelled(row, cause="client", stage=INTERRUPT, actor="anonymous")
    assert client.delete(front) == 200
    assert client.request("ping", front).response.status == 404
