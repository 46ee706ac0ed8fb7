"""A server process stores cancellations that arrive together in one batch."""

import asyncio

import pytest

from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.models import Request
from mcp_app.states import Cause, ProcessRole, Status
from mcp_app.transport.process.cancellations import CancellationQueue
from mcp_app.transport.process.threads import Threads
from tests.support import rows


@pytest.mark.fault("I2")
def test_I2_clients_that_leave_together_have_their_queued_calls_closed_at_one_moment() -> None:
    worker = rows.alive(ProcessRole.WORKER)
    crowd = [rows.running(worker), *(rows.queued() for _ in range(99))]
    assert len(crowd) < cancellation.TOGETHER

    async def scenario() -> None:
        threads = Threads("test", 1)
        try:
            cancellations = CancellationQueue(threads)
            asks = [CancellationRequest(row.pk, Cause.DISCONNECT, SYSTEM) for row in crowd]
            assert all(await asyncio.gather(*map(cancellations.cancel, asks)))
        finally:
            await threads.close()

    asyncio.run(asyncio.wait_for(scenario(), 30.0))
    closed = Request.objects.filter(status=Status.CANCELLED).values_list("finished_at", flat=True)
    assert len(closed) == 99
    assert len(set(closed)) == 1
    assert rows.fresh(crowd[0]).cancel_cause == Cause.DISCONNECT
