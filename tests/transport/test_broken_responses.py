"""If a request fails after its response has begun, no exception leaves the application.

Daphne would write a second response head, and would not end any application from then on.
"""

import pytest

from mcp_app.states import Cause
from mcp_app.transport.calls.dialogue import CallNotifications
from tests.support.asgi_client import call, post
from tests.support.worker import Worker, row


async def test_a_failure_in_mid_stream_ends_the_response_stops_the_work_and_lets_no_exception_out(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await post(call(meta={"progressToken": 1}))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await client.head()
    await client.next_message()
    monkeypatch.delattr(CallNotifications, "messages")
    await worker.report(request_id, 2)
    assert await client.rest() == []
    # Waits for the application, and would raise its exception.
    assert await client.silent()
    assert (await row(request_id)).cancel_cause == Cause.LOST_SERVER
