"""A server that keeps no long connections closes them during a call, and the client reconnects.

Source: 2025-11-25 basic/transports "Sending Messages to the Server", 6.
"""

from typing import Any

from mcp_app.models import Request
from mcp_app.states import Status
from tests.support.legacy_asgi_client import BOTH, Client, call
from tests.support.worker import Worker, row


async def test_a_client_that_is_sent_away_in_mid_call_polls_until_the_response(worker: Worker, configure: Any) -> None:
    configure(CUT_AFTER=0.05)
    client = await Client.opened()
    answer = await client.post(call())
    request_id = await worker.claim()
    await answer.head()
    prime, cut = await answer.events()
    assert (prime.message, cut.message, cut.retry) == (None, None, "1000")
    [cut] = await (await client.get(prime.id)).events()
    assert (cut.message, cut.retry) == (None, "1000")
    await worker.finish(request_id)
    [last] = await (await client.get(prime.id)).events()
    while last.message is None:
        [last] = await (await client.get(prime.id)).events()
    assert last.message["result"]["content"][0]["text"] == "done"
    assert (await row(request_id)).status == Status.COMPLETED
    assert await Request.objects.acount() == 1


async def test_a_client_that_could_not_come_back_is_not_sent_away(worker: Worker, configure: Any) -> None:
    configure(CUT_AFTER=0.0)
    older, takes_json = await Client.opened("2025-06-18"), await Client.opened()
    for client, accept in ((older, BOTH), (takes_json, "application/json")):
        answer = await client.post(call(), accept=accept)
        await worker.finish(await worker.claim())
        assert (await answer.json())["result"]["content"][0]["text"] == "done"
