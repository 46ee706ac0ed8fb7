"""2026-07-28 basic/patterns/cancellation, over HTTP.

The worker's tests cover how the work stops.
"""

import json

import pytest
from django.utils import timezone

from mcp_app.lifecycle.audit.attempts import SYSTEM, Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.models import Cancellation
from mcp_app.states import Cause, Outcome
from mcp_app.tools import tool
from tests.interaction.answers import read_whole
from tests.support.asgi_client import Connection, call, post
from tests.support.worker import Worker, in_thread, row

pytestmark = pytest.mark.usefixtures("_tools")


@pytest.fixture
def _tools(_empty: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0, MAX_QUEUE_SECONDS=30.0)

    @tool(time_limit=7.0)
    def work() -> str:
        """Work for some seconds."""
        return ""


async def test_a_notification_cancels_nothing_over_http_whatever_it_says(worker: Worker) -> None:
    client = await post(call(request_id=1))
    request_id = await worker.claim()
    for params in ({"requestId": 1}, {"requestId": "1"}, {"requestId": None}, {"reason": "enough"}, {}):
        notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        connection = Connection()
        await connection.send(json.dumps(notification).encode())
        assert await read_whole(connection) == (202, None)
    assert (await row(request_id)).cancel_requested_at is None
    await worker.finish(request_id)
    assert "result" in await client.json()


@pytest.mark.parametrize("cause", [Cause.ADMIN, Cause.DEADLINE, Cause.SHUTDOWN])
async def test_the_server_sends_no_cancelled_notification_of_its_own(worker: Worker, cause: Cause) -> None:
    client = await post(call(meta={"progressToken": 1}))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await client.head()
    asked = await in_thread(cancellation.cancel, request_id, cause=cause, actor=Actor("ada"), reason="Too long")
    assert asked == Outcome.ACCEPTED
    await worker.finish(request_id)
    told = await client.rest()
    assert [each.get("method") for each in told] == ["notifications/progress", None]


async def test_a_reason_is_kept_with_the_attempt(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.claim()
    await in_thread(cancellation.cancel, request_id, cause=Cause.ADMIN, actor=SYSTEM, reason="Too long")
    assert (await row(request_id)).cancel_reason == "Too long"
    assert (await in_thread(Cancellation.objects.get)).reason == "Too long"
    await worker.finish(request_id)
    await client.json()


@pytest.mark.fault("A14")
async def test_every_request_has_a_time_limit_that_progress_does_not_extend(worker: Worker) -> None:
    client = await post(call(meta={"progressToken": 1}))
    queued = await row(await worker.receive())
    assert 0 < (queued.deadline_at - timezone.now()).total_seconds() <= 30
    await client.leave()
    client = await post(call(meta={"progressToken": 1}))
    request_id = await worker.claim()
    limit = (await row(request_id)).deadline_at
    assert 0 < (limit - timezone.now()).total_seconds() <= 7
    await worker.report(request_id, 1, 2, 3)
    assert (await row(request_id)).deadline_at == limit
    await worker.finish(request_id)
    await client.head()
    await client.body()
