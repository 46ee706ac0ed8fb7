"""A disconnect without a session cancels, unless the site chooses the older revisions' rule (lifecycle, "Timeouts")."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Process, Request
from mcp_app.states import Cause, ProcessRole, Status
from tests.support import asgi_client as modern
from tests.support.legacy_asgi_client import BOTH, Client, call
from tests.support.worker import Worker, eventually, in_thread, row

JSON = "application/json"


@pytest.fixture
def _goes_on(configure: Callable[..., None]) -> None:
    configure(SESSIONLESS_DISCONNECT_CANCELS=False, SSE_AFTER=0.01)


def causes() -> list[str]:
    return list(Request.objects.values_list("cancel_cause", flat=True))


@pytest.mark.usefixtures("_goes_on")
@pytest.mark.parametrize("accept", [JSON, BOTH])
@pytest.mark.parametrize("body", [call(), [call(request_id=1), call(request_id=2)]], ids=["one", "batch"])
async def test_with_the_setting_off_what_was_left_goes_on_to_its_end(worker: Worker, accept: str, body: Any) -> None:
    answer = await Client("2025-03-26").post(body, accept=accept)
    claimed = [await worker.claim() for _ in (body if isinstance(body, list) else [body])]
    await answer.leave()
    assert await in_thread(causes) == [""] * len(claimed)
    for request_id in claimed:
        assert (await row(request_id)).server is None
        assert await worker.finish(request_id) == Status.COMPLETED


@pytest.mark.usefixtures("_goes_on")
async def test_with_the_setting_off_a_queued_call_waits_for_its_worker_without_its_client(worker: Worker) -> None:
    answer = await Client("").post(call(), accept=JSON)
    request_id = await worker.receive()
    await answer.leave()
    assert (await row(request_id)).status == Status.QUEUED
    notes = await in_thread(lambda: [event.data for event in Request.objects.get().events.filter(kind="note")])
    [note] = notes
    assert all(fact in note["message"] for fact in ("client disconnected", "continues"))


@pytest.mark.usefixtures("_goes_on")
async def test_with_the_setting_off_the_death_of_its_server_does_not_cancel_a_call_either(worker: Worker) -> None:
    older = await Client("").post(call(), accept=JSON)
    kept = await worker.claim()
    newer = await modern.post(modern.call(), accept=JSON)
    lost = await worker.claim()
    await in_thread(Request.objects.update, queued_at="2020-01-01T00:00Z")
    await in_thread(Process.objects.filter(role=ProcessRole.SERVER).delete)
    await in_thread(rounds.cancel_requests_of_silent_servers)
    assert [(await row(each)).cancel_cause for each in (kept, lost)] == ["", Cause.LOST_SERVER]
    await worker.finish(kept)
    await worker.finish(lost, Status.CANCELLED)
    for answer in (older, newer):
        await answer.json()


@pytest.mark.usefixtures("_goes_on")
async def test_the_setting_is_about_older_revisions_alone(worker: Worker) -> None:
    answer = await modern.post(modern.call())
    request_id = await worker.claim()
    await answer.leave()
    assert await eventually(lambda: Request.objects.get().cancel_cause) == Cause.DISCONNECT
    await worker.finish(request_id, Status.CANCELLED)


@pytest.mark.usefixtures("_goes_on")
async def test_the_end_of_the_server_process_cancels_whatever_the_setting(worker: Worker) -> None:
    answer = await Client("").post(call(), accept=JSON)
    request_id = await worker.claim()
    await answer.kill()
    assert (await row(request_id)).cancel_cause == Cause.SHUTDOWN
    await worker.finish(request_id, Status.CANCELLED)


async def test_a_client_that_stops_reading_has_left_every_call_of_its_batch(worker: Worker, configure) -> None:
    configure(STALL_TIMEOUT=0.05)
    answer = await Client("2025-03-26").post([call(request_id=1, token="t"), call(request_id=2)])
    claimed = {(await row(pk)).jsonrpc_id: pk for pk in (await worker.claim(), await worker.claim())}
    await answer.head()
    await answer._more()
    answer.stop_reading()
    await worker.report(claimed[1], 1)
    await eventually(lambda: causes() == [Cause.DISCONNECT] * 2)
    for request_id in claimed.values():
        await worker.finish(request_id, Status.CANCELLED)
