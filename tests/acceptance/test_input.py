"""A call that asks its user, on real processes. No process waits for the user, and any server takes the answer."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.site import programs
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import META, Connection, call, text
from tests.support.waiting import eventually

CLIENT = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {"elicitation": {}}}


def post(stack: Stack, server: Server, path: Path, **more: Any) -> Connection:
    body = call("order", path=str(path))
    body["params"] |= {"_meta": CLIENT, **more}
    return stack.post(body, server=server)


def asked(connection: Connection, *keys: str) -> str:
    """Assert that a call asks for these keys, and return the state that the answer must contain."""
    result = connection.result()
    assert result["resultType"] == "input_required"
    assert tuple(result["inputRequests"]) == keys
    return str(result["requestState"])


def kill_workers(stack: Stack) -> None:
    """Kill every worker, and wait until others have replaced them."""
    killed = set(stack.workers().values())
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(map(programs.is_alive, killed)), "the workers are dead")
    for program in stack.worker_programs:
        if program.pid in killed:
            program.wait()  # the main thread may end before the other ones
    stack.restore_workers()


@pytest.fixture
def second(stack: Stack) -> Any:
    """Another server process, which a test may kill."""
    extra = stack.start_extra_servers()
    yield extra[0]
    for server in extra:
        if not server.program.ended:
            server.stop()


@pytest.mark.fault("H4")
def test_an_answer_goes_to_another_server_and_a_killed_worker_changes_nothing(
    stack: Stack, second: Server, tmp_path: Path
) -> None:
    first, path = stack.servers[0], tmp_path / "lines"
    state = asked(post(stack, first, path), "order")
    kill_workers(stack)
    quantity = {"order": {"action": "accept", "content": {"quantity": 2}}}
    state = asked(post(stack, second, path, requestState=state, inputResponses=quantity), "sure")
    second.program.kill()
    yes = {"sure": {"action": "accept", "content": {"yes": True}}}
    last = post(stack, first, path, requestState=state, inputResponses=yes)
    assert text(last.result()) == "17: 2 small, accept"
    row = stack.ended(last)
    assert (row.status, row.attempts) == ("completed", [])
    assert [step for step in row.story if step in ("running", "input_required", "completed")] == [
        *("running", "input_required", "running", "input_required", "running", "completed"),
    ]
    assert path.read_text().split() == ["run", "reserved", "run", "run"]
    again = post(stack, first, path, requestState=state, inputResponses=yes).answer()
    assert again["error"]["code"] == -32602


def test_a_call_that_asks_can_be_cancelled_and_its_client_is_told(stack: Stack, tmp_path: Path) -> None:
    [server, *_] = stack.servers
    first = post(stack, server, tmp_path / "lines")
    state = asked(first, "order")
    stack.ask("cancel", request_id=stack.row(first).id, reason="closing time")
    row = stack.ended(first)
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "admin", 0)
    told = post(stack, server, tmp_path / "lines", requestState=state, inputResponses={}).result()
    assert told["isError"] is True
    assert all(fact in text(told) for fact in ("cancelled", "administrator", "closing time"))
