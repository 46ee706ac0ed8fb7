"""Tasks outlive the connections and servers on which they were made, and can be cancelled at any server."""

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.situations import LONG, STEP
from tests.acceptance.test_disconnect import assert_stopped
from tests.support.site.inspector import Row
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import META, Connection, message, text
from tests.support.waiting import eventually

KNOWS = {META + "clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}}
BEYOND_LOST = 6.0
"""Seconds of work: longer than the time after which requests of a silent server are cancelled."""
PATIENCE = 30.0


def create(stack: Stack, tool: str, server: Server | None = None, **arguments: Any) -> tuple[str, Row, Connection]:
    """Create a task. Return its id, its row, and the connection on which it was made."""
    connection = stack.post(message("tools/call", meta=KNOWS, name=tool, arguments=arguments), server=server)
    created = connection.result()
    assert created["resultType"] == "task", created
    return created["taskId"], stack.row(connection), connection


def ask(stack: Stack, method: str, task_id: str, server: Server | None = None, **params: Any) -> dict[str, Any]:
    return stack.post(message(method, meta=KNOWS, taskId=task_id, **params), server=server).result()


def ended(stack: Stack, task_id: str, server: Server | None = None) -> dict[str, Any]:
    """Wait until the task has ended, and return it."""

    def found() -> dict[str, Any] | None:
        task = ask(stack, "tasks/get", task_id, server)
        return task if task["status"] not in ("working", "input_required") else None

    task = eventually(found, f"task {task_id} ends", PATIENCE)
    assert task is not None
    return task


def test_a_task_goes_on_when_its_client_is_gone(stack: Stack, steps: Path) -> None:
    task_id, row, connection = create(stack, "step_as_task", seconds=1.0, path=str(steps), step=STEP)
    connection.reset()
    done = ended(stack, task_id)
    assert text(done["result"]) == f"{round(1.0 / STEP)} steps"
    assert stack.ask("request", id=row.id)["attempts"] == []


def test_a_task_survives_the_restart_and_the_death_of_the_server_that_made_it(stack: Stack, tmp_path: Path) -> None:
    extra = stack.start_extra_servers()
    made = [
        create(stack, "step_as_task", server, seconds=BEYOND_LOST, path=str(tmp_path / f"{number}"), step=STEP)[0]
        for number, server in enumerate(extra)
    ]
    extra[0].stop()
    for server in extra[1:]:
        server.program.kill()
    restarted = stack.start_embedded("--no-worker")
    for task_id in made:
        assert text(ended(stack, task_id, restarted)["result"]) == f"{round(BEYOND_LOST / STEP)} steps"
    restarted.stop()


@pytest.mark.broker
def test_tasks_cancel_through_another_server_stops_the_work(stack: Stack, steps: Path) -> None:
    task_id, row, connection = create(stack, "step_as_task", stack.servers[0], seconds=LONG, path=str(steps), step=STEP)
    eventually(steps.exists, "the task takes a step")
    assert ask(stack, "tasks/get", task_id)["status"] == "working"
    acknowledged = ask(stack, "tasks/cancel", task_id, stack.servers[-1])
    assert acknowledged.keys() == {"resultType", "_meta"}
    assert ended(stack, task_id)["status"] == "cancelled"
    stopped = stack.ended(connection)
    assert_stopped(stopped, steps)
    assert (stopped.id, stopped.cancel_cause) == (row.id, "client")
    assert [attempt.outcome for attempt in stopped.attempts] == ["accepted"]


def test_a_listener_on_another_server_is_told_of_each_change_and_the_input_is_brought_to_it(stack: Stack) -> None:
    first, last = stack.servers[0], stack.servers[-1]
    task_id, _, _ = create(stack, "confirm_delete", first, filename="a.txt")
    listening = stack.post(
        message("subscriptions/listen", meta=KNOWS, notifications={"taskIds": [task_id]}), server=last
    )
    heard = listening.messages()
    assert next(heard)["params"]["notifications"] == {"taskIds": [task_id]}
    asking = next(told for told in heard if told["params"]["status"] == "input_required")
    assert asking["method"] == "notifications/tasks"
    [key] = asking["params"]["inputRequests"]
    answers = {key: {"action": "accept", "content": {"confirm": True}}}
    ask(stack, "tasks/update", task_id, last, inputResponses=answers)
    done = next(told["params"] for told in heard if told["params"]["status"] == "completed")
    assert text(done["result"]) == "a.txt: accept"
    assert ask(stack, "tasks/get", task_id, first)["result"] == done["result"]


def test_a_listener_hears_whole_tasks_of_its_caller_and_nothing_else(stack: Stack, steps: Path) -> None:
    running, _, _ = create(stack, "step_as_task", stack.servers[0], seconds=LONG, path=str(steps), step=STEP)
    failed, _, _ = create(stack, "failing_job")
    ended(stack, failed)
    eventually(steps.exists, "the task takes a step")
    wanted = {"taskIds": [failed, "00000000-0000-4000-8000-000000000000", running]}
    listening = stack.post(message("subscriptions/listen", meta=KNOWS, notifications=wanted), server=stack.servers[-1])
    heard = listening.messages()
    acknowledged = next(heard)
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["notifications"] == {"taskIds": [failed, running]}
    now = {told["params"]["taskId"]: told["params"] for told in (next(heard), next(heard))}
    assert now[failed]["status"] == "completed"
    assert now[failed]["result"]["isError"] is True
    assert now[running]["status"] == "working"
    ask(stack, "tasks/cancel", running)
    said = []
    while not said or said[-1]["params"]["status"] != "cancelled":
        said.append(next(heard))
    assert {told["method"] for told in said} == {"notifications/tasks"}
    assert {told["params"]["taskId"] for told in said} == {running}
    for told in said:
        assert told["params"]["_meta"][META + "subscriptionId"] == listening.request_id
        assert told["params"].keys() >= {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"}


def test_a_protocol_error_of_a_tool_fails_its_task(stack: Stack) -> None:
    task_id, _, _ = create(stack, "protocol_error_job")
    failed = ended(stack, task_id)
    assert (failed["status"], failed["error"]) == (
        *("failed", {"code": -32603, "message": "The job cannot be served."}),
    )
