"""basic/patterns/subscriptions, for resources and prompts."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from mcp_types.methods import validate_server_result

from mcp_app.conf import settings
from mcp_app.prompts import notify_prompts_list_changed
from mcp_app.protocol.revisions import MODERN
from mcp_app.resources import notify_resource_updated, notify_resources_list_changed, resource
from mcp_app.transport import shutdown
from tests.support.asgi_client import META, Connection, ask, call, message, post
from tests.support.worker import Worker, in_thread

pytestmark = pytest.mark.usefixtures("offered")

TODAY = "notes://today"
HOUR = "notes://monday/7"


async def listen(request_id: Any = 1, **wanted: Any) -> tuple[Connection, dict[str, Any]]:
    """Return an open stream and its acknowledgement."""
    client = await post(message("subscriptions/listen", request_id, notifications=wanted))
    await client.head()
    acknowledged = await client.next_message()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    return client, acknowledged["params"]["notifications"]


async def told_until_the_end(client: Connection) -> list[str]:
    """Return the notifications that still come before the server ends the stream."""
    await shutdown.drain()
    *told, final = await client.rest()
    assert final["result"]["resultType"] == "complete"
    return [each["method"].removeprefix("notifications/") for each in told]


async def test_the_acknowledgement_reflects_what_is_honoured() -> None:
    wanted = {"promptsListChanged": True, "resourcesListChanged": True, "toolsListChanged": False}
    uris = [TODAY, "unknown://a", HOUR, "no uri", TODAY]
    client, honoured = await listen(**wanted, resourceSubscriptions=uris)
    assert honoured == {
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": [TODAY, HOUR],
    }
    await client.leave()


async def test_a_resource_that_the_caller_may_not_have_is_left_out_as_an_unknown_one() -> None:
    resource("secret://a", available=lambda visit: visit.uri is None)(lambda: "")
    client, honoured = await listen(resourceSubscriptions=["secret://a"])
    assert honoured == {}
    assert await told_until_the_end(client) == []


@pytest.mark.parametrize("request_id", [0, "", "x"])
async def test_resource_updates_carry_the_uri_and_the_subscription_id(request_id: Any) -> None:
    client, _ = await listen(request_id, resourceSubscriptions=[TODAY, HOUR])
    await in_thread(notify_resource_updated, HOUR)
    assert await client.next_message() == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"_meta": {META + "subscriptionId": request_id}, "uri": HOUR},
    }
    await client.leave()


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        ({"promptsListChanged": True}, ["prompts/list_changed"]),
        ({"resourcesListChanged": True}, ["resources/list_changed"]),
        ({"resourceSubscriptions": [TODAY]}, ["resources/updated"]),
        ({"toolsListChanged": True, "resourceSubscriptions": [HOUR]}, []),
        (
            {"resourcesListChanged": True, "promptsListChanged": True, "resourceSubscriptions": [TODAY]},
            ["prompts/list_changed", "resources/list_changed", "resources/updated"],
        ),
    ],
)
async def test_a_stream_is_sent_what_it_asked_for_and_a_burst_is_told_once(
    wanted: dict[str, Any], heard: list[str]
) -> None:
    def change() -> None:
        with transaction.atomic(using=settings.DATABASE):
            for _ in range(3):
                notify_prompts_list_changed(using=settings.DATABASE)
                notify_resources_list_changed(using=settings.DATABASE)
                notify_resource_updated(TODAY, using=settings.DATABASE)

    client, _ = await listen(**wanted)
    others, _ = await listen(promptsListChanged=True)
    await in_thread(change)
    first = [await client.next_message() for _ in heard]
    assert [each["method"].removeprefix("notifications/") for each in first] == heard
    await others.next_message()  # all notifications have been sent
    assert await told_until_the_end(client) == []


@pytest.mark.parametrize("alias", ["default", "rows"])
async def test_a_change_that_is_rolled_back_is_told_to_nobody(alias: str) -> None:
    using = settings.DATABASE if alias == "rows" else alias

    def change(*, fail: bool, notify: Callable[..., None]) -> None:
        with transaction.atomic(using=using):
            notify(using=using)
            transaction.set_rollback(fail, using=using)

    client, _ = await listen(resourcesListChanged=True, promptsListChanged=True)
    await in_thread(change, fail=True, notify=notify_resources_list_changed)
    await in_thread(change, fail=False, notify=notify_prompts_list_changed)
    assert (await client.next_message())["method"] == "notifications/prompts/list_changed"
    assert await told_until_the_end(client) == []


async def test_a_client_has_several_at_once_and_each_is_told_on_its_own_by_its_id() -> None:
    clients = [(await listen(number, promptsListChanged=True))[0] for number in (1, 1, "1")]
    await in_thread(notify_prompts_list_changed)
    told = [(await client.next_message())["params"]["_meta"][META + "subscriptionId"] for client in clients]
    assert told == [1, 1, "1"]
    await clients[0].leave()
    await in_thread(notify_prompts_list_changed)
    await clients[1].next_message()
    for client in clients[1:]:
        await client.leave()


async def test_the_first_and_the_last_message_are_the_subscription_s_and_the_schema_s() -> None:
    client = await post(message("subscriptions/listen", "s", notifications={"toolsListChanged": True}))
    await client.head()
    first = await client.next_message()
    assert first["params"]["_meta"] == {META + "subscriptionId": "s"}
    await shutdown.drain()
    [last] = await client.rest()
    validate_server_result("subscriptions/listen", MODERN, last["result"])
    assert last["result"]["_meta"][META + "subscriptionId"] == last["id"] == "s"


async def test_no_message_of_a_call_is_sent_on_a_subscription(worker: Worker) -> None:
    everything = {"progressToken": "t", META + "logLevel": "debug"}
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    listener = await post(message("subscriptions/listen", "s", meta=everything, notifications=wanted))
    await listener.head()
    await listener.next_message()
    client = await post(call(meta=everything))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await worker.log(request_id, "error")
    await worker.finish(request_id)
    await client.head()
    assert len(await client.rest()) == 3
    assert await told_until_the_end(listener) == []


async def test_more_resources_than_one_stream_may_watch_are_refused(configure) -> None:
    configure(MAX_RESOURCE_SUBSCRIPTIONS=2)
    uris = [f"notes://monday/{hour}" for hour in range(3)]
    refused = await ask("subscriptions/listen", notifications={"resourceSubscriptions": uris})
    assert refused["error"]["code"] == -32602
    client, honoured = await listen(resourceSubscriptions=uris[:2])
    assert len(honoured["resourceSubscriptions"]) == 2
    await client.leave()
