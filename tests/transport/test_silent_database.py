"""Streams that older clients open while the database does not answer are rejected in time, and leave no trace.

The database does not answer writes, because another connection holds its write lock.
"""

import json
from typing import Any

import pytest

from mcp_app.models import ReadQuestion, Request, Session
from mcp_app.prompts import ReadContext, prompt
from mcp_app.states import Status
from tests.support.asgi_client import run
from tests.support.failing_database import write_lock
from tests.support.legacy_asgi_client import Client, Stream, call, request, steps
from tests.support.worker import Worker, eventually, row
from tests.transport.legacy_questions import opened

pytestmark = pytest.mark.usefixtures("_soon")


TIMEOUT = 1.0


@pytest.fixture
def _soon(settings: Any, _settings: None) -> None:
    settings.MCP = {**settings.MCP, "DATABASE_TIMEOUT": TIMEOUT}


async def assert_refused(stream: Stream) -> None:
    refused = await stream.body()
    assert stream.status == 503
    assert stream.headers["retry-after"] == "1"
    error = json.loads(refused)["error"]
    assert error["code"] == 503
    assert "database" in error["message"]


async def listened(client: Client) -> Client:
    """Open and close a stream, so that the server process has a stored heartbeat and need not write one first."""
    await (await client.get()).leave()
    await eventually(Session.objects.filter(stream=None).exists)
    return client


@pytest.mark.fault("D2")
async def test_D2_who_comes_back_for_a_call_is_refused_in_time_and_comes_back_again(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await answer.head()
    seen = [await answer.next_event() for _ in range(2)][-1]
    await answer.leave()
    await eventually(Request.objects.filter(pk=request_id, left_at__isnull=False).exists)
    with write_lock():
        await assert_refused(await client.get(seen.id))
    # The database executes the statement later: the call is taken over, and its new connection has ended.
    await eventually(Request.objects.filter(pk=request_id, left_at__isnull=False, follower__isnull=False).exists)
    resumed = await client.get(seen.id)
    await worker.report(request_id, 2)
    await worker.finish(request_id)
    assert steps(await resumed.events()) == [2]
    ended = await row(request_id)
    assert (ended.status, ended.cancel_cause) == (Status.COMPLETED, "")


@pytest.mark.fault("D2")
async def test_D2_who_listens_for_a_session_is_refused_in_time_and_does_not_keep_its_stream() -> None:
    client = await listened(await Client.opened())
    with write_lock():
        await assert_refused(await client.get())
    await eventually(Session.objects.filter(stream_seq=2, stream=None).exists)


@pytest.mark.fault("D2")
def test_D2_what_would_ask_is_refused_in_time_and_nothing_is_left_asked() -> None:
    @prompt
    def survey(visit: ReadContext) -> str:
        return f"{len(visit.roots())} roots"

    async def scenario() -> None:
        client = await listened(await opened())
        with write_lock():
            await assert_refused(await client.post(request("prompts/get", name="survey")))

    run(scenario())
    assert not ReadQuestion.objects.exists()
