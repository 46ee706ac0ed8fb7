"""2026-07-28 basic/patterns/progress."""

import json
from typing import Any

import pytest

from tests.interaction.answers import read_whole, rejected_with
from tests.support.asgi_client import Connection, call, message, post
from tests.support.worker import Worker

pytestmark = pytest.mark.usefixtures("work_tool")


async def told(worker: Worker, meta: dict[str, Any], *steps: float, **details: Any) -> list[dict[str, Any]]:
    """Return the messages to the client of a call that reports these steps, and its response."""
    client = await post(call(meta=meta))
    request_id = await worker.claim()
    await worker.report(request_id, *steps, **details)
    await worker.finish(request_id)
    await client.head()
    if client.headers["content-type"] == "application/json":
        return [json.loads(await client.body())]
    return await client.rest()


@pytest.mark.fault("E6")
async def test_a_token_of_either_type_is_echoed_and_nothing_follows_the_response(worker: Worker) -> None:
    for token in (0, "", "0"):
        *progress, last = await told(worker, {"progressToken": token}, 1, 2)
        assert [each["params"]["progressToken"] for each in progress] == [token, token]
        assert all(type(each["params"]["progressToken"]) is type(token) for each in progress)
        assert "result" in last


async def test_each_value_is_greater_than_the_one_before(worker: Worker) -> None:
    *progress, _ = await told(worker, {"progressToken": 1}, 2, 1, 2, -5, 3.5)
    assert [each["params"]["progress"] for each in progress] == [2, 3.5]


async def test_what_is_unknown_is_left_out(worker: Worker) -> None:
    plain, _ = await told(worker, {"progressToken": 1}, 1)
    assert plain["params"] == {"progressToken": 1, "progress": 1}
    full, _ = await told(worker, {"progressToken": 1}, 1, total=2, message="Half")
    assert full["params"] == {"progressToken": 1, "progress": 1, "total": 2, "message": "Half"}


@pytest.mark.fault("E6", "G15")
async def test_without_a_token_there_is_none_and_a_mistyped_one_is_refused(worker: Worker) -> None:
    assert len(await told(worker, {}, 1, 2)) == 1
    for token in (1.5, True, [], {}):
        assert await rejected_with(message("tools/list", meta={"progressToken": token})) == (400, -32602)


async def test_a_client_s_own_progress_is_accepted_and_dropped() -> None:
    connection = Connection()
    params = {"progressToken": 1, "progress": 1}
    own = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    await connection.send(json.dumps(own).encode())
    assert await read_whole(connection) == (202, None)
