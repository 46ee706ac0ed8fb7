"""ext-tasks specification/draft/tasks: the shapes of a task, and the params that are rejected."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_app.protocol import tasks
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.metadata import SERVER_INFO, SUBSCRIPTION_ID
from mcp_app.protocol.tasks import CAPABILITY, Task, UpdateTask
from tests.protocol.posts import ABSENT, modern_meta, route

MADE = datetime(2026, 7, 28, 10, 0, 0, 5_999, tzinfo=UTC)
WHO = {"name": "s", "version": "1"}
KNOWS = modern_meta(clientCapabilities=dict(CAPABILITY))


def task(**members: Any) -> Task:
    plain = {"task_id": "t", "status": "working", "created_at": MADE, "last_updated_at": MADE, "ttl_ms": None}
    return Task(**plain | members)


def code_of(outcome: object) -> int:
    assert isinstance(outcome, Rejection)
    return outcome.code


def test_a_created_task_is_flat_and_without_an_outcome() -> None:
    asking = task(status="input_required", input_requests={"n": {}}, ttl_ms=5, poll_interval_ms=7, status_message="m")
    assert tasks.create_task_result(asking, WHO) == {
        "resultType": "task",
        "taskId": "t",
        "status": "input_required",
        "createdAt": "2026-07-28T10:00:00.005Z",
        "lastUpdatedAt": "2026-07-28T10:00:00.005Z",
        "ttlMs": 5,
        "pollIntervalMs": 7,
        "statusMessage": "m",
        "_meta": {SERVER_INFO: WHO},
    }


def test_an_unlimited_time_to_live_is_null_and_not_absent() -> None:
    shown = tasks.detailed_task(task(), WHO)
    assert shown["ttlMs"] is None
    assert shown.keys().isdisjoint({"pollIntervalMs", "statusMessage", "inputRequests", "result", "error"})


def test_a_finished_task_carries_what_the_call_would_have_been_answered() -> None:
    done = tasks.detailed_task(task(status="completed", result={"content": [], "_meta": {"own": 1}}), WHO)
    assert done["result"] == {"resultType": "complete", "content": [], "_meta": {"own": 1, SERVER_INFO: WHO}}
    failed = tasks.detailed_task(task(status="failed", error={"code": 1, "message": "m"}), WHO)
    assert failed["error"] == {"code": 1, "message": "m"}


@pytest.mark.parametrize("subscription_id", [0, "", "x"])
def test_a_notification_is_the_task_and_its_subscription(subscription_id: Any) -> None:
    shown = tasks.detailed_task(task(), WHO)
    assert tasks.status_notification(shown, subscription_id) == {
        "jsonrpc": "2.0",
        "method": "notifications/tasks",
        "params": {**shown, "_meta": {SUBSCRIPTION_ID: subscription_id}},
    }


@pytest.mark.parametrize("capabilities", [{}, {"extensions": {}}, {"extensions": {"other": {}}}, {"tasks": {}}])
def test_a_client_that_does_not_declare_the_extension_is_told_first(capabilities: dict[str, Any]) -> None:
    meta = modern_meta(clientCapabilities=capabilities)
    for refused in (
        tasks.read_task_id(route("tasks/get", {}, meta=meta)),
        tasks.read_update_task(route("tasks/update", {}, meta=meta)),
        tasks.read_watched_tasks(route("subscriptions/listen", {"notifications": {"taskIds": 1}}, meta=meta)),
    ):
        assert code_of(refused) == -32021
    assert tasks.read_watched_tasks(route("subscriptions/listen", {"notifications": {}}, meta=meta)) == ()
    null = route("subscriptions/listen", {"notifications": {"taskIds": None}}, meta=meta)
    assert tasks.read_watched_tasks(null) == ()


@pytest.mark.parametrize("task_id", [ABSENT, None, 5, ["t"]])
def test_a_task_id_is_a_string(task_id: Any) -> None:
    params = {} if task_id is ABSENT else {"taskId": task_id}
    assert code_of(tasks.read_task_id(route("tasks/get", params, meta=KNOWS))) == -32602


@pytest.mark.parametrize("responses", [ABSENT, None, [], "x"])
def test_responses_are_an_object(responses: Any) -> None:
    params = {"taskId": "t"} if responses is ABSENT else {"taskId": "t", "inputResponses": responses}
    assert code_of(tasks.read_update_task(route("tasks/update", params, meta=KNOWS))) == -32602
    whole = route("tasks/update", {"taskId": "t", "inputResponses": {"n": None}}, meta=KNOWS)
    assert tasks.read_update_task(whole) == UpdateTask("t", {"n": None})


@pytest.mark.parametrize("task_ids", ["t", {}, ["t", 1]])
def test_watched_tasks_are_a_list_of_strings(task_ids: Any) -> None:
    listening = route("subscriptions/listen", {"notifications": {"taskIds": task_ids}}, meta=KNOWS)
    assert code_of(tasks.read_watched_tasks(listening)) == -32602


def test_a_task_named_twice_is_watched_once() -> None:
    listening = route("subscriptions/listen", {"notifications": {"taskIds": ["b", "a", "b"]}}, meta=KNOWS)
    assert tasks.read_watched_tasks(listening) == ("b", "a")
