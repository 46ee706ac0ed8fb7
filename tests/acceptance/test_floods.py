"""Tools with too much output, and clients that do not read: the traffic, the rows and the memory are limited."""

import json
import math
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.crowds import MIB, deaf, report, request_bytes, watching
from tests.support.site import layouts
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import META, call, message, text
from tests.support.waiting import eventually

EVENTS_A_SECOND = 100
BURST = 50


class Sent:
    """A call that was sent, with the id by which its row is found."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.request_id = body["id"]


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A site without a limit for the events of tools, served by `mcp serve` (Daphne) and by uvicorn."""
    unbounded = {"EVENT_RATE": 1e6, "EVENT_BURST": 1_000_000}
    with layouts.narrow(tmp_path_factory.mktemp("flooded"), STALL_TIMEOUT=2.0, **unbounded) as stack:
        stack.serve_from(*stack.servers, stack.start_uvicorn())
        yield stack


@pytest.fixture(params=["daphne", "uvicorn"])
def server(request: pytest.FixtureRequest, flooded: Stack) -> Server:
    return flooded.servers[request.param == "uvicorn"]


@pytest.mark.fault("E3")
def test_E3_a_flood_of_progress_is_thinned_on_the_wire_and_in_the_rows_and_its_result_delivered(stack: Stack) -> None:
    seconds = 2.0
    body = message("tools/call", name="flood_for", arguments={"seconds": seconds}, meta={"progressToken": "t"})
    flooding = stack.post(body)
    *told, answer = flooding.messages()
    reported = int(text(answer["result"]))
    sent = [each["params"]["progress"] for each in told]
    assert (sent[0], sent[-1]) == (1, reported)
    assert sent == sorted(set(sent))
    # On a busy machine the worker may store fewer events in that time, but never more.
    row = stack.ended(flooding)
    assert row.finished_at is not None
    took = stack.row(flooding).running_for
    stored = [data["progress"] for data in stack.ask("events", request_id=row.id, kind="progress")]
    assert (stored[0], stored[-1]) == (1, reported)
    assert len(sent) <= len(stored) <= BURST + EVENTS_A_SECOND * (took + 1) < reported


@pytest.mark.fault("E5")
def test_E5_progress_that_is_none_never_reaches_the_wire(stack: Stack) -> None:
    client = stack.post(message("tools/call", name="odd_progress", arguments={}, meta={"progressToken": 0}))

    def strictly(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    raw = client.response.read().decode()
    frames = [part.removeprefix("data: ") for part in raw.splitlines() if part.startswith("data: ")]
    *told, answer = [json.loads(frame, parse_constant=strictly) for frame in frames]
    assert text(answer["result"]) == "reported"
    params = [{key: value for key, value in each["params"].items() if key != "_meta"} for each in told]
    assert params == [
        {"progressToken": 0, "progress": 1},
        {"progressToken": 0, "progress": 2.5},
        {"progressToken": 0, "progress": 3, "message": "a total that is none"},
        {"progressToken": 0, "progress": 4, "message": "x\ufffd\ufffd"},
        {"progressToken": 0, "progress": 5, "total": 5},
    ]
    assert all(math.isfinite(each["progress"]) for each in params)


@pytest.mark.fault("E1")
def test_E1_a_client_that_does_not_read_200_MB_is_one_that_left(flooded: Stack, server: Server) -> None:
    # The tools sleep after their output, which a fast machine writes before the server gives up the client.
    arguments = {"megabytes": 200, "rest": 150.0}
    pouring = {"name": "pour", "arguments": arguments, "meta": {META + "logLevel": "debug"}}
    with watching(server) as seen:
        bodies = [message("tools/call", **pouring) for _ in range(2)]
        clients = [deaf(server.port, body) for body in bodies]
        rows = [flooded.ended(Sent(body), within=120) for body in bodies]
        for client in clients:
            client.close()
    assert [(row.status, row.cancel_cause) for row in rows] == [("cancelled", "disconnect")] * 2
    assert seen.grown < 40 * MIB, seen.grown
    report("E1, 2 × 200 MB of log lines", server, seen)


@pytest.mark.fault("E1")
def test_E1_large_results_for_many_that_do_not_read_cost_bounded_memory(flooded: Stack, server: Server) -> None:
    count, size = 16, 4_000_000
    with watching(server) as seen:
        bodies = [call("big", bytes=size) for _ in range(count)]
        clients = [deaf(server.port, body) for body in bodies]
        rows = [flooded.ended(Sent(body), within=60) for body in bodies]
        eventually(lambda: all(flooded.row(Sent(body)).delivered for body in bodies), "all are written")
        for client in clients:
            client.close()
    assert {row.status for row in rows} == {"completed"}
    # Daphne buffers every response; as much again is being read and encoded.
    assert seen.grown < 2 * count * size / 1024 + 50 * MIB, seen.grown
    report(f"E1, {count} results of {size} bytes, unread", server, seen)


@pytest.mark.fault("E1")
def test_E1_a_result_over_the_limit_is_an_error_that_says_so(stack: Stack) -> None:
    result = stack.call("big", bytes=8_000_000).result()
    assert result["isError"] is True
    assert "4194304 bytes" in text(result)


@pytest.mark.fault("F10")
def test_F10_a_body_that_trickles_is_given_up_and_leaves_nothing(tmp_path: Path) -> None:
    with layouts.narrow(tmp_path, BODY_TIMEOUT=1.0) as stack:
        stack.serve_from(*stack.servers, stack.start_uvicorn())
        before = stack.ask("requests")
        for server in stack.servers:
            request = request_bytes(call("echo", text="slow"))
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
                client.sendall(request[:-60])
                answer = b""
                for byte in request[-60:]:  # 12 s for the whole body
                    client.settimeout(0.2)
                    try:
                        client.sendall(bytes([byte]))
                        answer += client.recv(65536)
                        break
                    except TimeoutError:
                        continue
                assert answer.startswith(b"HTTP/1.1 408 "), (server.program.command, answer)
            assert "capabilities" in stack.post(message("server/discover"), server=server).result()
        assert stack.ask("requests") == before
