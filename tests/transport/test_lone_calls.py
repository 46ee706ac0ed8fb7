"""The tool's row and the limits are read again for every call."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_app.catalogue import tool_rows
from mcp_app.models import Request, Tool
from tests.support.asgi_client import Connection, call, post
from tests.support.worker import Worker, in_thread
from tests.support.worker import row as stored
from tests.transport.test_load import refused


async def served(worker: Worker, **arguments: Any) -> Request:
    """Return the row of a call, and finish the call."""
    client = await post(call(**arguments))
    request_id = await worker.claim()
    found = await stored(request_id)
    await worker.finish(request_id)
    assert "result" in await client.json()
    return found


async def error_of(client: Connection) -> str:
    message: str = (await client.json())["error"]["message"]
    return message


@pytest.mark.parametrize("has_row", [True, False], ids=["a row before", "none before"])
async def test_what_an_administrator_says_holds_for_the_very_next_call(worker: Worker, has_row: bool) -> None:
    if has_row:
        await in_thread(tool_rows.sync)
    assert (await served(worker)).time_limit != 7.0
    await in_thread(tool_rows.sync)
    await in_thread(lambda: tool_rows.change(["work"], time_limit=7.0))
    assert (await served(worker)).time_limit == 7.0
    await in_thread(tool_rows.set_enabled, "work", False)
    assert "Unknown tool" in await error_of(await post(call()))
    assert "Unknown tool" in await error_of(await post(call(text=5)))  # nor is the wrong argument reported
    await in_thread(Tool.objects.all().delete)
    assert (await served(worker)).time_limit != 7.0


FULL = {
    "the caller has as many": ({"MAX_OPEN_REQUESTS_PER_PRINCIPAL": 1}, lambda worker: worker.claim(), 429),
    "as many wait": ({"MAX_QUEUED_REQUESTS": 1}, lambda worker: worker.receive(), 503),
}


@pytest.mark.parametrize(("limit", "step", "status"), FULL.values(), ids=FULL)
async def test_there_is_room_or_none_at_the_moment_at_which_it_is_stored(
    worker: Worker, configure: Any, limit: dict[str, int], step: Callable[[Worker], Any], status: int
) -> None:
    configure(**limit)
    await served(worker)
    first = await post(call(request_id=1))
    await step(worker)
    await refused(await post(call(request_id=2), peer="192.0.2.1"), status)
    assert await in_thread(Request.objects.filter(finished_at=None).count) == 1
    await first.leave()
