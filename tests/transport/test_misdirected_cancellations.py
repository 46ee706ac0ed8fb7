"""Cancellations by a stranger, before their request, or of requests that have another method for it (B5, B8, B9)."""

import asyncio
from typing import Any

import pytest

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.registry import tool
from mcp_app.models import Cancellation
from mcp_app.protocol.tasks import EXTENSION
from mcp_app.states import Outcome, Status, TaskMode
from mcp_app.transport.serving import callers
from tests.support.asgi_client import META, message, post
from tests.support.asgi_client import call as modern_call
from tests.support.legacy_asgi_client import Client, call, notification
from tests.support.worker import Worker, in_thread, row

EVE = Principal("https://issuer", "eve", "client", "Eve")


def audit() -> list[tuple[Any, str, str, str]]:
    rows = Cancellation.objects.order_by("pk")
    return list(rows.values_list("request_id", "outcome", "actor", "reason"))


@pytest.mark.fault("B5")
async def test_B5_a_strangers_cancellation_in_anothers_session_is_as_in_none_and_audited_as_denied(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await Client.opened()
    answer = await client.post(call(request_id=7))
    request_id = await worker.claim()
    right = notification("notifications/cancelled", requestId=7, reason="mine now")
    with monkeypatch.context() as patched:
        patched.setattr(callers, "authenticate_anonymous", lambda connection: EVE)
        own = await Client.opened()
        told = [
            await client.post(right),
            await Client(session="0" * 32).post(right),
            await own.post(right),
            await Client().post(right),
        ]
    assert [each.status for each in told] == [404, 404, 202, 202]
    found, unknown = await told[0].body(), await told[1].body()
    assert found == unknown
    assert told[0].headers == told[1].headers
    assert await in_thread(audit) == [
        (request_id, Outcome.DENIED, "Eve", "mine now"),
        (None, Outcome.UNKNOWN, "Eve", "mine now"),
        (None, Outcome.UNKNOWN, "Eve", "mine now"),
    ]
    assert (await row(request_id)).cancel_requested_at is None
    await worker.finish(request_id)
    assert "result" in await answer.json()
    assert (await row(request_id)).status == Status.COMPLETED


@pytest.mark.fault("B8")
async def test_B8_a_cancellation_that_overtakes_its_request_does_not_stop_it(worker: Worker) -> None:
    client = await Client.opened()
    early = await client.post(notification("notifications/cancelled", requestId=7))
    assert early.status == 202
    answer = await client.post(call(request_id=7))
    request_id = await worker.claim()
    await worker.finish(request_id)
    assert "result" in await answer.json()
    ended = await row(request_id)
    assert (ended.status, ended.cancel_requested_at) == (Status.COMPLETED, None)
    assert [outcome for _, outcome, _, _ in await in_thread(audit)] == [Outcome.UNKNOWN]


@pytest.mark.fault("B9")
async def test_B9_initialize_is_not_cancelled_over_http(worker: Worker) -> None:
    client = Client()
    shaking, cancelled = await asyncio.gather(
        client.initialize(), Client().post(notification("notifications/cancelled", requestId=0))
    )
    assert "result" in shaking
    assert cancelled.status == 202
    again = await client.post(notification("notifications/cancelled", requestId=0))
    assert again.status == 202
    answer = await client.post(call())
    await worker.finish(await worker.claim())
    assert "result" in await answer.json()


@pytest.mark.fault("B9")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_B9_a_task_is_not_cancelled_by_its_id_in_a_notification(worker: Worker, era: str) -> None:
    @tool(task=TaskMode.ALWAYS)
    def slow() -> str:
        """Take long."""
        return ""

    knows = {META + "clientCapabilities": {"extensions": {EXTENSION: {}}}}
    created = await post(modern_call("slow", meta=knows))
    request_id = await worker.claim()
    task = (await created.json())["result"]["taskId"]
    named: dict[str, Any] = {"requestId": task, "taskId": task}
    if era == "modern":
        body = message("notifications/cancelled", meta=knows, **named)
        del body["id"]
        told = await post(body)
        await told.head()
    else:
        client = await Client.opened()
        told = await client.post(notification("notifications/cancelled", **named))
    assert told.status == 202
    assert (await row(request_id)).cancel_requested_at is None
    await worker.finish(request_id)
    shown = await (await post(message("tasks/get", meta=knows, taskId=task))).json()
    assert shown["result"]["status"] == "completed"
