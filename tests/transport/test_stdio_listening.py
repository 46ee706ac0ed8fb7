"""`subscriptions/listen` over stdio: several on one channel, distinguished by id, and ended by either side."""

from typing import Any

from mcp_app.catalogue import tool_rows
from mcp_app.transport import shutdown
from tests.support.asgi_client import META, message
from tests.support.stdio_client import Client, connect
from tests.support.worker import in_thread

SUBSCRIPTION = META + "subscriptionId"


async def listen(client: Client, request_id: Any) -> None:
    await client.send(message("subscriptions/listen", request_id, notifications={"toolsListChanged": True}))
    acknowledged = await client.receive()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["_meta"][SUBSCRIPTION] == request_id


async def test_a_change_is_told_to_each_subscription_until_its_client_cancels_it() -> None:
    async with connect() as client:
        await listen(client, 1)
        await listen(client, "1")
        await in_thread(tool_rows.touch)
        told = [await client.receive(), await client.receive()]
        assert {each["method"] for each in told} == {"notifications/tools/list_changed"}
        assert [type(each["params"]["_meta"][SUBSCRIPTION]) for each in told].count(str) == 1
        await client.cancel(1)
        await client.ask("server/discover")
        await in_thread(tool_rows.touch)
        assert (await client.receive())["params"]["_meta"][SUBSCRIPTION] == "1"
        await client.ask("server/discover")


async def test_a_subscription_that_the_server_ends_gets_its_result_and_then_its_cancellation() -> None:
    async with connect() as client:
        await listen(client, 5)
        await shutdown.drain()
        final = await client.receive()
        assert (final["id"], final["result"]["_meta"][SUBSCRIPTION]) == (5, 5)
        cancelled = await client.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"] == {"_meta": {SUBSCRIPTION: 5}, "requestId": 5}
