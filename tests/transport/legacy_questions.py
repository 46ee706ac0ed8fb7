"""Calls of a legacy session that ask for input, and the requests that the client gets."""

from typing import Any
from uuid import UUID

from mcp_app.states import Status
from tests.support.legacy_asgi_client import Client, Event, Stream, call
from tests.support.worker import Worker, row

THREE = {"action": "accept", "content": {"n": 3}}
TEN = {"action": "accept", "content": {"n": 10}}


async def opened(version: str = "2025-11-25") -> Client:
    return await Client.opened(version, elicitation={"form": {}, "url": {}}, sampling={}, roots={})


async def start_asking_call(client: Client, worker: Worker, *keys: str, **options: Any) -> tuple[UUID, Stream]:
    """Start a call that has asked for a number under each of these keys."""
    stream = await client.post(call(**options))
    request_id = await worker.claim()
    assert await worker.ask(request_id, **{key: f"{key}?" for key in keys}) == Status.INPUT_REQUIRED
    await stream.head()
    return request_id, stream


async def next_question(stream: Stream, method: str = "elicitation/create") -> Event:
    """Return the next message, which must be a request of the server."""
    while (event := await stream.next_event()).message is None:
        pass
    assert event.message["method"] == method
    return event


async def status_of(request_id: UUID) -> str:
    return str((await row(request_id)).status)
