"""`subscriptions/listen`: the acknowledgement with the granted filter comes first, then the changes."""

from typing import Any

import pytest

from mcp_app.catalogue import tool_rows
from mcp_app.transport import shutdown
from mcp_app.transport.subscriptions import stream
from tests.support.asgi_client import META, Connection, message, post
from tests.support.worker import in_thread

SUBSCRIPTION = META + "subscriptionId"


async def listen(request_id: Any = 1, **wanted: Any) -> Connection:
    client = await post(message("subscriptions/listen", request_id, notifications=wanted))
    await client.head()
    assert client.status == 200
    assert client.headers["content-type"] == "text/event-stream"
    return client


async def listen_to_tools(request_id: Any = 1) -> Connection:
    client = await listen(request_id, toolsListChanged=True)
    first = await client.next_message()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    return client


@pytest.mark.parametrize("request_id", [0, "", 1, "1"])
async def test_every_message_names_its_subscription_as_the_client_did(request_id: Any) -> None:
    client = await listen(request_id, toolsListChanged=True, promptsListChanged=True, unheardOf=True)
    acknowledged = await client.next_message()
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    await in_thread(tool_rows.touch)
    changed = await client.next_message()
    assert changed["method"] == "notifications/tools/list_changed"
    await shutdown.drain()
    [final] = await client.rest()
    assert final["id"] == request_id
    assert final["result"]["resultType"] == "complete"
    metas = [acknowledged["params"]["_meta"], changed["params"]["_meta"], final["result"]["_meta"]]
    assert [meta[SUBSCRIPTION] for meta in metas] == [request_id] * 3


@pytest.mark.parametrize("wanted", [{}, {"toolsListChanged": False}, {"resourceSubscriptions": ["file:///x"]}])
async def test_subscription_to_nothing_ends_at_once(wanted: dict[str, Any]) -> None:
    client = await listen(**wanted)
    acknowledged, final = await client.rest()
    assert acknowledged["params"]["notifications"] == {}
    assert final["result"]["_meta"][SUBSCRIPTION] == 1


async def test_burst_of_changes_is_one_notification(monkeypatch) -> None:
    monkeypatch.setattr(stream, "QUIET_SECONDS", 0.3)

    def burst() -> None:
        for _ in range(5):
            tool_rows.touch()

    client = await listen_to_tools()
    await in_thread(burst)
    await client.next_message()
    await shutdown.drain()
    [final] = await client.rest()
    assert "result" in final


async def test_every_stream_of_every_client_is_told() -> None:
    clients = [await listen_to_tools(1) for _ in range(5)]
    await in_thread(tool_rows.touch)
    for client in clients:
        assert (await client.next_message())["method"] == "notifications/tools/list_changed"
    for client in clients:
        await client.leave()


async def test_change_is_seen_without_any_wake_up(configure, monkeypatch) -> None:
    configure(POLL_INTERVAL=0.02)
    monkeypatch.setattr("mcp_app.lifecycle.liveness.wakeups.wake_server", lambda *told: None)
    client = await listen_to_tools()
    await in_thread(tool_rows.touch)
    assert (await client.next_message())["method"] == "notifications/tools/list_changed"
    await client.leave()


async def test_silent_stream_is_kept_alive_by_comments(configure) -> None:
    configure(KEEP_ALIVE=0.01)
    client = await listen_to_tools()
    for _ in range(3):
        assert await client.event() is None
    await client.leave()


@pytest.mark.parametrize(("limit", "code"), [("MAX_LISTEN_STREAMS", 503), ("MAX_LISTEN_STREAMS_PER_PRINCIPAL", 429)])
async def test_one_subscription_too_many_is_refused(configure, limit: str, code: int) -> None:
    configure(**{limit: 1})
    first = await listen_to_tools()
    second = await post(message("subscriptions/listen", notifications={"toolsListChanged": True}))
    assert (await second.json())["error"]["code"] == code
    assert (second.status, second.headers["retry-after"]) == (code, "1")
    await first.leave()
    third = await listen_to_tools()
    await third.leave()
