"""A client disconnects before its call is stored, or between storing and publishing (faults A2, A3).

The test holds the database's write lock, or blocks the function that publishes.
"""

import asyncio
import threading
from typing import Any
from uuid import uuid4

import pytest

from mcp_app.celery_adapter import broker
from mcp_app.lifecycle.audit import attempts
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from mcp_app.states import Cause, Outcome, Status
from tests.support.asgi_client import Connection, call, post
from tests.support.failing_database import write_lock
from tests.support.worker import PATIENCE, Worker, eventually, in_thread


async def ended(client: Connection) -> None:
    async with asyncio.timeout(PATIENCE):
        assert await client.silent()


def requests() -> list[Request]:
    return list(Request.objects.all())


@pytest.mark.fault("A2")
async def test_A2_a_client_that_leaves_before_its_call_is_stored_has_nothing_run(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    about_to_be_stored = threading.Event()
    store = transitions.submit_all

    def submit_all(*args: Any) -> list[Request | Exception]:
        about_to_be_stored.set()
        return store(*args)

    monkeypatch.setattr(transitions, "submit_all", submit_all)
    first = await post(call())
    await worker.receive()  # now the heartbeat of the server process is stored
    await first.leave()
    await in_thread(Request.objects.all().delete)
    about_to_be_stored.clear()
    with write_lock():
        client = await post(call())
        assert await in_thread(about_to_be_stored.wait, PATIENCE)
        await client.disconnect()
        assert not await in_thread(requests)
    await ended(client)
    [stored] = await in_thread(requests)
    assert (stored.status, stored.cancel_cause) == (Status.CANCELLED, Cause.DISCONNECT)
    [attempt] = await in_thread(attempts.list_attempts, stored.pk)
    assert (attempt.cause, attempt.outcome, attempt.status_before) == ("disconnect", Outcome.ACCEPTED, "queued")
    while not worker.idle():
        assert await in_thread(_refused, await worker.receive())


@pytest.mark.fault("A3")
@pytest.mark.parametrize("taken", [True, False], ids=["the broker takes it after all", "the broker does not"])
async def test_A3_a_client_that_leaves_between_storing_and_publishing_has_nothing_run(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    about_to_be_sent, may_be_sent = threading.Event(), threading.Event()
    send = broker.send_tasks

    def send_tasks(*args: Any, **options: Any) -> None:
        about_to_be_sent.set()
        assert may_be_sent.wait(PATIENCE)
        if not taken:
            raise broker.SilentBrokerError
        send(*args, **options)

    monkeypatch.setattr(broker, "send_tasks", send_tasks)
    client = await post(call())
    assert await in_thread(about_to_be_sent.wait, PATIENCE)
    await client.disconnect()
    cancelled = await eventually(lambda: Request.objects.filter(status=Status.CANCELLED).first())
    assert cancelled.cancel_cause == Cause.DISCONNECT
    may_be_sent.set()
    await ended(client)
    [stored] = await in_thread(requests)
    assert (stored.status, stored.claimed_at) == (Status.CANCELLED, None)
    [attempt] = await in_thread(attempts.list_attempts, stored.pk)
    assert (attempt.cause, attempt.outcome, attempt.status_before) == ("disconnect", Outcome.ACCEPTED, "queued")
    if taken:
        assert await in_thread(_refused, await worker.receive())
    assert worker.idle()


def _refused(request_id: Any) -> bool:
    """Return whether a worker that received the message cannot claim the call."""
    return transitions.claim(request_id, worker=uuid4(), pid=1) is None
