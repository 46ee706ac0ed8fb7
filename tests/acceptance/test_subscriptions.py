"""Subscriptions are acknowledged with the request's id, and get one notification of every change."""

from typing import Any

import pytest

from tests.support.site.stack import Server, Stack
from tests.support.site.wire import META, Connection, RequestId, message, text
from tests.support.waiting import eventually

CHANGES = 3
COUNTER = "counter://commits"


def listen(
    stack: Stack, request_id: RequestId | None = None, server: Server | None = None, **wanted: Any
) -> Connection:
    """Open a stream, by default for changes of the tool list."""
    body = message("subscriptions/listen", request_id, notifications=wanted or {"toolsListChanged": True})
    return stack.post(body, server=server)


def read(stack: Stack, uri: str, server: Server) -> str:
    result = stack.post(message("resources/read", uri=uri), server=server).result()
    return str(result["contents"][0]["text"])


def heard(stream: Connection) -> str:
    """Wait for the next notification. Return its kind and the resource that it names."""
    told = next(stream.messages())
    return f"{told['method'].removeprefix('notifications/')} {told['params'].get('uri', '')}".rstrip()


def subscription_id(notification: dict[str, Any]) -> object:
    return notification["params"]["_meta"][META + "subscriptionId"]


@pytest.mark.parametrize("request_id", [0, "", 7, "x"], ids=repr)
def test_the_acknowledgement_comes_first_and_keeps_the_id(stack: Stack, request_id: RequestId) -> None:
    for _ in stack.servers:
        stream = listen(stack, request_id)
        [acknowledged] = stream.until_silent() or stream.until_silent()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        found = subscription_id(acknowledged)
        assert (found, type(found)) == (request_id, type(request_id))


def test_every_listener_on_every_server_is_told_of_each_change_once(stack: Stack) -> None:
    streams = [listen(stack, toolsListChanged=True, resourcesListChanged=True) for _ in range(20)]
    for stream in streams:
        assert next(stream.messages())["method"] == "notifications/subscriptions/acknowledged"
    for _ in range(CHANGES):
        float(text(stack.call("trigger_change").result()))
        for stream in streams:
            told = next(stream.messages())
            assert told["method"] == "notifications/tools/list_changed"
            assert subscription_id(told) == stream.request_id
    # A notification that was sent twice would arrive before this change.
    assert text(stack.call("move_counter", commit=True).result()) == "committed"
    assert [heard(stream) for stream in streams] == ["resources/list_changed"] * len(streams)


def test_a_change_by_an_administrator_is_told(stack: Stack) -> None:
    streams = [listen(stack) for _ in stack.servers]
    for stream in streams:
        next(stream.messages())
    stack.ask("limit", tool="echo", time_limit=None)
    for stream in streams:
        assert next(stream.messages())["method"] == "notifications/tools/list_changed"


def test_a_stream_that_an_administrator_closes_ends_with_its_result_on_whatever_server(stack: Stack) -> None:
    extra = stack.start_extra_servers()
    streams = [listen(stack, server=server) for server in [*stack.servers, *extra]]
    for stream in streams:
        next(stream.messages())
    eventually(
        lambda: stack.ask("close listen streams", number=len(streams)) == len(streams), "all are known and closed"
    )
    for stream in streams:
        [final] = stream.messages()
        assert (final["id"], final["result"]["resultType"]) == (stream.request_id, "complete")
    for server in extra:
        server.stop()


def test_a_change_in_a_tools_transaction_is_heard_on_every_server_and_one_rolled_back_on_none(stack: Stack) -> None:
    extra = stack.start_extra_servers()
    servers = [*stack.servers, *extra]
    wanted = {"toolsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": [COUNTER]}
    streams = [listen(stack, server=server, **wanted) for server in servers]
    for stream in streams:
        assert next(stream.messages())["params"]["notifications"] == wanted
    before = int(read(stack, COUNTER, servers[0]))

    assert text(stack.call("move_counter", commit=False).result()) == "rolled back"
    stack.call("trigger_change").result()
    assert [heard(stream) for stream in streams] == ["tools/list_changed"] * len(servers)

    assert text(stack.call("move_counter", commit=True).result()) == "committed"
    for stream in streams:
        assert [heard(stream), heard(stream)] == ["resources/list_changed", f"resources/updated {COUNTER}"]
    assert {int(read(stack, COUNTER, server)) for server in servers} == {before + 1}
    stack.call("trigger_change").result()
    assert [heard(stream) for stream in streams] == ["tools/list_changed"] * len(servers)
    for server in extra:
        server.stop()
