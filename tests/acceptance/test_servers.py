"""Every ASGI server of docs/how-to/deployment.md, started by its command there, has the same outcomes."""

import signal
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.situations import INTERRUPT, LONG, RUNNING, STEP, Situation
from tests.acceptance.test_disconnect import (
    LEAVE,
    assert_cancelled,
    assert_child_is_fit,
    assert_stopped,
    commence,
)
from tests.support.site import guide, programs, wire
from tests.support.site.legacy_wire import Client as LegacyClient
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import BOTH, JSON, Connection, message, text
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.engines,
    pytest.mark.parametrize("running_stack", ["engines"], indirect=True, scope="session"),
]

EVERY: Final = tuple(guide.SAYS)
BOUNDED: Final = ("python", "uvicorn", "hypercorn")
"""Servers that buffer no more of a body than its limit. The `daphne` command buffers all of it."""
HEAR_OF_HALF: Final = ("uvicorn", "hypercorn")
"""Servers that pass a request to the app before its body is complete."""
BEHIND: Final = 20_000
"""Bytes sent after a running request: so many that every server stops reading, Daphne last."""
HUGE: Final = 50_000_000
ROOM_KIB: Final = 10_000
SOON: Final = 5.0
MEASURED: Final = 20

A5, A6, A7 = (
    next(each for each in RUNNING if each.name == name) for name in ("cooperative", "blocking", "swallowing_everything")
)


class Started:
    """The servers, each started when a test first uses it."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._servers: dict[str, Server] = {}

    def __getitem__(self, program: str) -> Server:
        if program not in self._servers:
            self._servers[program] = self._stack.start_from_guide(program)
        return self._servers[program]

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()


@pytest.fixture(scope="module")
def servers(running_stack: Stack) -> Iterator[Started]:
    started = Started(running_stack)
    yield started
    started.stop()


@pytest.fixture
def server(servers: Started, program: str) -> Server:
    return servers[program]


on_every_server = pytest.mark.parametrize("program", EVERY)


@on_every_server
@pytest.mark.fault("A16", "A5", "A6", "A7")
@pytest.mark.parametrize(
    ("situation", "accept", "leave"),
    [(A5, BOTH, "FIN"), (A6, JSON, "RST"), (A7, BOTH, "FIN")],
    ids=["A5-stream", "A6-json", "A7-stream"],
)
def test_A16_leaving_stops_a_tool_whichever_server_it_was_called_at(
    stack: Stack, server: Server, situation: Situation, accept: str, leave: str, steps: Path
) -> None:
    call, _ = commence(stack, situation, steps, accept, server)
    LEAVE[leave](call)
    row = stack.ended(call)
    assert_cancelled(row, cause="disconnect", stage=situation.stage, actor="anonymous")
    if situation.writes_steps:
        assert_stopped(row, steps)
    assert_child_is_fit(stack, row)


@on_every_server
@pytest.mark.fault("A15", "A16", "H5")
def test_A15_an_older_client_without_a_session_cancels_by_leaving_and_one_with_a_session_does_not(
    stack: Stack, server: Server, steps: Path
) -> None:
    session = LegacyClient.opened(stack, server)
    calls = []
    for client in (session, LegacyClient(stack)):
        path = steps.with_name(client.session or "stateless")
        call = client.call("sleep_sync", server, accept=JSON, seconds=LONG, path=str(path), step=STEP)
        stack.running(call)
        eventually(path.exists, "it takes a step")
        call.close()
        calls.append(call)
    kept, left = calls
    assert_cancelled(stack.ended(left), cause="disconnect", stage=INTERRUPT, actor="anonymous")
    assert stack.row(kept).status == "running"
    assert session.delete(server) == 200
    assert stack.ended(kept).status == "cancelled"


@on_every_server
@pytest.mark.fault("A16", "H2")
def test_A16_a_listen_stream_that_was_left_holds_no_socket_of_its_server(stack: Stack, server: Server) -> None:
    def held() -> set[str]:
        return programs.inodes_of_port(server.port) & programs.socket_inodes(server.program.pid)

    before = held()
    streams = [
        stack.post(message("subscriptions/listen", notifications={"toolsListChanged": True}), server=server)
        for _ in range(3)
    ]
    for stream, leave in zip(streams, (Connection.close, Connection.reset, Connection.half_close), strict=True):
        assert next(stream.messages())["method"] == "notifications/subscriptions/acknowledged"
        leave(stream)
    eventually(lambda: held() <= before, "its sockets are closed", SOON)


@on_every_server
@pytest.mark.fault("A12")
def test_A12_a_half_closed_connection_is_a_disconnect_at_every_server(
    stack: Stack, server: Server, steps: Path
) -> None:
    call, _ = commence(stack, A6, steps, JSON, server)
    call.half_close()
    row = stack.ended(call)
    assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
    assert_stopped(row, steps)


@on_every_server
@pytest.mark.fault("A5")
def test_A5_a_client_that_sent_more_behind_its_call_and_left_is_noticed_by_the_next_heartbeat(
    stack: Stack, server: Server, steps: Path
) -> None:
    call, _ = commence(stack, A6, steps, BOTH, server)
    call.send_raw(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (BEHIND, bytes(BEHIND)))
    call.close()
    row = stack.ended(call)
    # Writing to the connection may fail first.
    assert row.cancel_reason == "" or "client has disconnected" in row.cancel_reason
    assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous", reason=row.cancel_reason)


@pytest.mark.parametrize("program", ["hypercorn"])
@pytest.mark.fault("A16", "H6")
def test_H6_a_reset_http2_stream_cancels_its_call_and_no_other_on_its_connection(
    stack: Stack, server: Server, steps: Path
) -> None:
    from tests.acceptance.http2 import HTTP2Connection  # its library is installed with Hypercorn

    connection = HTTP2Connection(server.port)
    left = wire.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    stream = connection.post(left)
    row = eventually(lambda: stack.inspector.row(jsonrpc_id=left["id"]), "a row")
    eventually(steps.exists, "it takes a step")
    beside = connection.post(wire.call("progress", steps=10, delay=0.05))
    connection.reset(stream)
    assert text(connection.result(beside)) == "10 steps"
    assert text(connection.result(connection.post(wire.call("echo", text="next")))) == "next"
    assert row is not None
    row = eventually(lambda: found if (found := stack.inspector.row(id=row.id)) and found.ended else None, "it ends")
    assert row is not None
    assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
    assert_stopped(row, steps)
    connection.close()


@on_every_server
@pytest.mark.fault("A1")
def test_A1_a_body_that_is_cut_off_leaves_no_row_and_nothing_in_the_log(stack: Stack, server: Server) -> None:
    before, logged = stack.ask("requests"), len(server.program.output())
    for leave in LEAVE.values():
        connection = stack.connect(server)
        connection.send_part(b'{"jsonrpc": "2.0", ', promised=1000)
        leave(connection)
    assert text(stack.call("echo", server=server, text="after").result()) == "after"
    assert stack.ask("requests") == before + 1
    said = server.program.output()[logged:]
    assert not [word for word in ("WARNING", "ERROR", "CRITICAL", "Traceback", "xception") if word in said], said


@pytest.mark.parametrize("program", BOUNDED)
@pytest.mark.fault("F1")
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_F1_a_huge_body_is_refused_in_constant_memory(stack: Stack, server: Server, chunked: bool) -> None:
    assert text(stack.call("echo", server=server, text="warm").result()) == "warm"
    before = programs.peak_memory(server.program.pid)
    connection = stack.connect(server)
    connection.send_until_refused(HUGE, chunked=chunked)
    assert connection.response.status == 413
    connection.response.read()
    assert programs.peak_memory(server.program.pid) - before < ROOM_KIB


@on_every_server
@pytest.mark.fault("G2")
def test_G2_only_the_host_header_says_which_host_is_meant(stack: Stack, server: Server) -> None:
    for host, forwarded, status in (("localhost", "evil.test", 200), ("evil.test", "localhost", 403)):
        fields = {"Host": host, "X-Forwarded-Host": forwarded, "Daphne-Root-Path": "/evil.test"}
        answer = stack.post(wire.call("echo", text="here"), server=server, headers=fields)
        assert answer.response.status == status
        assert b"evil.test" not in answer.response.read()
        assert "evil.test" not in str(answer.response.headers)


@on_every_server
@pytest.mark.fault("H2")
def test_H2_what_a_tool_starts_holds_no_socket_of_its_server(stack: Stack, server: Server, steps: Path) -> None:
    [spawning] = [each for each in RUNNING if each.tool == "spawn"]
    call, row = commence(stack, spawning, steps, BOTH, server)
    started = programs.marked(f"MCP_REQUEST={row.id}")
    assert started
    sockets = programs.inodes_of_port(server.port)
    assert sockets & programs.socket_inodes(server.program.pid)
    for pid in started | set(stack.workers().values()):
        assert not sockets & programs.socket_inodes(pid), programs.command_line(pid)
    call.close()


@on_every_server
@pytest.mark.fault("C13", "H2")
def test_C13_a_server_that_is_told_to_stop_beside_a_half_uploaded_request_ends_its_calls_and_frees_its_port(
    stack: Stack, program: str, steps: Path
) -> None:
    server = stack.start_from_guide(program)
    call, _ = commence(stack, A6, steps, JSON, server)
    half = stack.connect(server)
    half.send_part(b"{", promised=1000)
    server.program.signal(signal.SIGTERM)
    result = call.result()
    assert result["isError"] is True
    assert "shutting down" in text(result)
    row = stack.ended(call)
    assert (row.status, row.cancel_cause) == ("cancelled", "shutdown")
    assert_stopped(row, steps)
    if program in HEAR_OF_HALF:
        assert half.response.status == 503
    assert server.program.wait() in (0, -signal.SIGTERM), server.program.output()
    with socket.create_server(("127.0.0.1", server.port)):
        pass


@pytest.mark.nightly
@on_every_server
@pytest.mark.fault("A16")
@pytest.mark.parametrize("accept", [BOTH, JSON], ids=["stream", "json"])
def test_A16_from_leaving_to_the_last_step_takes_as_long_at_every_server(
    stack: Stack, server: Server, accept: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    taken = []
    for number in range(MEASURED):
        steps = tmp_path / str(number)
        call = stack.call("sleep_sync", accept=accept, server=server, seconds=LONG, path=str(steps), step=0.001)
        stack.running(call, 0.2)
        assert accept == JSON or call.is_stream
        left = time.time()
        call.close()
        stack.ended(call)
        last = float(steps.read_text().splitlines()[-1].split()[0])
        taken.append((last - left) * 1000)
    record_property("p50_ms", statistics.median(taken))
    record_property("max_ms", max(taken))
    print(f"p50 {statistics.median(taken):.1f} ms, max {max(taken):.1f} ms")  # noqa: T201
    assert max(taken) < 10_000
