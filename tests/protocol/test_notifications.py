from typing import Any

import pytest
from mcp_types.methods import parse_server_notification

from mcp_app.protocol import notifications
from mcp_app.protocol.metadata import SUBSCRIPTION_ID
from mcp_app.protocol.revisions import MODERN


def params_of(message: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the params of a message that the official wire types accept."""
    parse_server_notification(method, MODERN, message["params"])
    assert (message["jsonrpc"], message["method"]) == ("2.0", method)
    assert "id" not in message
    params: dict[str, Any] = message["params"]
    return params


@pytest.mark.parametrize("token", [0, "", 5, "5"])
def test_progress_echoes_the_token_with_its_type(token: str | int) -> None:
    params = params_of(notifications.progress(token, 0), "notifications/progress")
    assert params == {"progressToken": token, "progress": 0}
    assert type(params["progressToken"]) is type(token)


def test_progress_says_total_and_message_when_they_are_known() -> None:
    params = params_of(notifications.progress("t", 1.5, 0, ""), "notifications/progress")
    assert params == {"progressToken": "t", "progress": 1.5, "total": 0, "message": ""}


@pytest.mark.parametrize("data", [None, "text", {"a": 1}])
def test_a_log_message_carries_any_json(data: Any) -> None:
    params = params_of(notifications.log_message("info", data, "tool"), "notifications/message")
    assert params == {"level": "info", "data": data, "logger": "tool"}
    assert "logger" not in notifications.log_message("info", data)["params"]


@pytest.mark.parametrize("subscription_id", [0, "", 1, "1"])
def test_the_messages_of_a_subscription_carry_its_id_with_its_type(subscription_id: str | int) -> None:
    acknowledged = notifications.acknowledged(subscription_id, {"toolsListChanged": True})
    changed = notifications.list_changed("tools", subscription_id)
    first = params_of(acknowledged, "notifications/subscriptions/acknowledged")
    assert first["notifications"] == {"toolsListChanged": True}
    for params in (first, params_of(changed, "notifications/tools/list_changed")):
        assert params["_meta"] == {SUBSCRIPTION_ID: subscription_id}
        assert type(params["_meta"][SUBSCRIPTION_ID]) is type(subscription_id)


def test_the_end_of_a_subscription_names_its_request() -> None:
    params = params_of(notifications.listen_cancelled(0), "notifications/cancelled")
    assert params == {"requestId": 0, "_meta": {SUBSCRIPTION_ID: 0}}
