"""Connections: matching responses to requests, reuse, inheritance by other processes, and rejected requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.situations import RUNNING
from tests.support.site import programs
from tests.support.site.stack import Stack
from tests.support.site.wire import JSON, META, VERSION, call, message, text
from tests.support.waiting import eventually


def test_two_requests_with_one_id_in_flight_get_their_own_answers(stack: Stack) -> None:
    first, second = (stack.post({**call("progress", steps=steps, delay=0.1), "id": 7}) for steps in (3, 6))
    assert [text(answered.result()) for answered in (second, first)] == ["6 steps", "3 steps"]


@pytest.mark.fault("H6")
@pytest.mark.parametrize("tool", ["echo", "sleep"])
def test_a_connection_serves_a_second_request_after_the_first(stack: Stack, tool: str, steps: Path) -> None:
    arguments: dict[str, Any] = {"text": "1"} if tool == "echo" else {"seconds": 0.6, "path": str(steps), "step": 0.1}
    for server in stack.servers:
        connection = stack.connect(server)
        connection.post(call(tool, **arguments))
        assert connection.is_stream == (tool == "sleep")
        connection.result()
        connection.post(call("echo", text="second"))
        assert text(connection.result()) == "second"


def test_progress_comes_on_the_calls_own_stream_under_its_token(stack: Stack) -> None:
    for token in (0, "", "own"):
        body = message(
            "tools/call", name="progress", arguments={"steps": 3, "delay": 0.05}, meta={"progressToken": token}
        )
        *told, answer = stack.post(body).messages()
        assert [each["params"]["progressToken"] for each in told] == [token] * 3
        assert [each["params"]["progress"] for each in told] == [1, 2, 3]
        assert text(answer["result"]) == "3 steps"


@pytest.mark.fault("H2")
def test_no_worker_and_nothing_that_a_tool_starts_holds_a_socket_of_the_server(stack: Stack, steps: Path) -> None:
    [spawning] = [situation for situation in RUNNING if situation.tool == "spawn"]
    running = stack.call("spawn", **spawning.arguments(steps))
    row = spawning.await_begun(stack, running, steps)
    servers = {server.program.pid for server in stack.servers}
    others = programs.processes_of(stack.data) - servers - {stack.inspector.pid}
    assert others > programs.marked(f"MCP_REQUEST={row.id}")
    sockets = set().union(*(programs.inodes_of_port(server.port) for server in stack.servers))
    for server in stack.servers:
        assert sockets & programs.socket_inodes(server.program.pid)
    for pid in others:
        assert not sockets & programs.socket_inodes(pid), programs.command_line(pid)


def _post(**changes: Any) -> dict[str, Any]:
    return {**call("echo", text="refused"), **changes}


REFUSED: dict[str, tuple[bytes, dict[str, str], int, int]] = {
    "no JSON": (b"{", {}, 400, -32700),
    "duplicate keys": (b'{"id": 1, "id": 2}', {}, 400, -32700),
    "a batch": (json.dumps([_post()]).encode(), {}, 400, -32600),
    "id null": (json.dumps(_post(id=None)).encode(), {}, 400, -32600),
    "no _meta": (json.dumps(_post(params={"name": "echo", "arguments": {}})).encode(), {}, 400, -32602),
    "another name in the header": (json.dumps(_post()).encode(), {"Mcp-Name": "add"}, 400, -32020),
    "another method in the header": (json.dumps(_post()).encode(), {"Mcp-Method": "tools/list"}, 400, -32020),
    "an unknown tool": (json.dumps(call("nothing")).encode(), {"Mcp-Name": "nothing"}, 200, -32602),
    "an unknown method": (json.dumps(message("tools/nothing")).encode(), {"Mcp-Method": "tools/nothing"}, 404, -32601),
    "a foreign page": (json.dumps(_post()).encode(), {"Origin": "https://evil.test"}, 403, 403),
    "a rebound name": (json.dumps(_post()).encode(), {"Host": "evil.test"}, 403, 403),
    "plain text": (json.dumps(_post()).encode(), {"Content-Type": "text/plain"}, 415, 415),
    "an image wanted": (json.dumps(_post()).encode(), {"Accept": "image/png"}, 406, 406),
    "too much": (b" " * 5 * 1024 * 1024, {}, 413, 413),
}


@pytest.mark.fault("F1", "F2", "F3", "G1", "G2")
@pytest.mark.parametrize(("body", "changed", "status", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_says_why_and_leaves_no_row(
    stack: Stack, body: bytes, changed: dict[str, str], status: int, code: int
) -> None:
    before = stack.ask("requests")
    headers = {
        "Content-Type": JSON,
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "echo",
        **changed,
    }
    for server in stack.servers:
        connection = stack.connect(server)
        connection.send(body, headers)
        assert connection.response.status == status
        error = json.loads(connection.response.read())["error"]
        assert error["code"] == code
        assert error["message"]
    assert stack.ask("requests") == before


@pytest.mark.fault("F8")
def test_another_version_is_refused_with_those_that_are_served(stack: Stack) -> None:
    before = stack.ask("requests")
    body = message("tools/call", name="echo", arguments={}, meta={META + "protocolVersion": "2199-01-01"})
    answer = stack.post(body, headers={"MCP-Protocol-Version": "2199-01-01"}).answer()
    assert answer["error"]["code"] == -32022
    assert VERSION in answer["error"]["data"]["supported"]
    assert stack.ask("requests") == before


def test_bad_arguments_are_told_to_the_model_and_leave_no_row(stack: Stack) -> None:
    before = stack.ask("requests")
    result = stack.call("add", a="one", b=2).result()
    assert result["isError"] is True
    assert "a" in text(result)
    assert stack.ask("requests") == before


@pytest.mark.fault("F8")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_other_http_methods_are_405_at_once(stack: Stack, method: str) -> None:
    connection = stack.connect()
    connection.send(b"", {}, method)
    assert connection.response.status == 405
    connection.response.read()


@pytest.mark.fault("A11")
def test_a_delivered_answer_is_noted_in_its_row(stack: Stack) -> None:
    answered = stack.call("echo", text="here")
    answered.result()
    row = eventually(lambda: found if (found := stack.row(answered)).delivered else None, "delivery is noted")
    assert row is not None
    assert (row.status, row.story, row.attempts) == ("completed", ["queued", "running", "completed"], [])
