"""Subscriptions: acknowledged with the id that was sent, and told once of every change."""

from typing import Any

import pytest

from tests.acceptance.stack import Stack
from tests.acceptance.wire import META, Connection, RequestId, message, text

CHANGES = 3


def listen(stack: Stack, request_id: RequestId | None = None) -> Connection:
    body = message("subscriptions/listen", request_id, notifications={"toolsListChanged": True})
    return stack.post(body)


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
    streams = [listen(stack) for _ in range(20)]
    for stream in streams:
        assert next(stream.messages())["method"] == "notifications/subscriptions/acknowledged"
    for _ in range(CHANGES):
        float(text(stack.call("trigger_change").result()))
        for stream in streams:
            changed = stream.until_silent()
            assert [told["method"] for told in changed] == ["notifications/tools/list_changed"]
            assert subscription_id(changed[0]) == stream.request_id


def test_a_change_by_an_administrator_is_told(stack: Stack) -> None:
    streams = [listen(stack) for _ in stack.servers]
    for stream in streams:
        next(stream.messages())
    stack.ask("set time limit", tool="echo", seconds=None)
    for stream in streams:
        assert next(stream.messages())["method"] == "notifications/tools/list_changed"
