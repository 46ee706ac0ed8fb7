"""Repeated cancellations without effect get equal responses and few audit rows (faults B6, B10)."""

import re

import pytest

from mcp_app.lifecycle.cancellation.throttling import RECORDED
from mcp_app.models import Cancellation
from mcp_app.protocol.tasks import EXTENSION
from mcp_app.states import Cause, Outcome, Status
from mcp_app.transport import shutdown
from tests.support.asgi_client import META, message, post
from tests.support.legacy_asgi_client import Client, call, notification
from tests.support.worker import Worker, in_thread, row

KNOWS = {META + "clientCapabilities": {"extensions": {EXTENSION: {}}}}
MANY = 3 * RECORDED


def audit() -> list[tuple[str, str]]:
    return list(Cancellation.objects.order_by("pk").values_list("outcome", "reason"))


@pytest.mark.fault("B10")
async def test_many_cancellations_of_unknown_tasks_are_refused_alike_and_audited_in_a_few_rows() -> None:
    for number in range(MANY):
        asked = await post(message("tasks/cancel", meta=KNOWS, taskId=f"unknown {number}"))
        assert (await asked.json())["error"]["code"] == -32602
    assert await in_thread(audit) == [(Outcome.UNKNOWN, "")] * RECORDED
    await shutdown.drain()
    [(outcome, reason)] = (await in_thread(audit))[RECORDED:]
    assert outcome == Outcome.UNKNOWN
    assert set(re.findall(r"\d+ \w+", reason)) == {f"{MANY - RECORDED} more", "60 s"}


@pytest.mark.fault("B6")
@pytest.mark.parametrize("repeats", [1, MANY])
async def test_a_session_that_cancels_what_has_ended_or_never_was_changes_nothing_and_is_audited(
    worker: Worker, repeats: int
) -> None:
    client = await Client.opened()
    for number in (1, 2):  # an id may be used again
        answer = await client.post(call(request_id=7))
        ended = await worker.claim()
        await worker.finish(ended, text=f"answer {number}")
        await answer.head()
    for unheard_of in (7, "7", 8):
        for _ in range(repeats):
            sent = await client.post(notification("notifications/cancelled", requestId=unheard_of))
            assert (sent.status, await sent.body()) == (202, b"")
    rows = min(repeats, RECORDED)
    found = await in_thread(lambda: list(Cancellation.objects.order_by("pk").values_list("request_id", "outcome")))
    assert found == [(ended, Outcome.TOO_LATE)] * rows + [(None, Outcome.UNKNOWN)] * min(2 * repeats, RECORDED)
    assert (await row(ended)).cancel_requested_at is None


async def test_of_two_calls_that_had_one_id_the_one_in_flight_is_cancelled(worker: Worker) -> None:
    client = await Client.opened()
    first = await client.post(call(request_id=7))
    await worker.finish(await worker.claim())
    await first.head()
    second = await client.post(call(request_id=7))
    running = await worker.claim()
    await client.post(notification("notifications/cancelled", requestId=7))
    assert (await row(running)).cancel_cause == Cause.CLIENT
    await worker.finish(running, Status.CANCELLED)
    await second.head()
