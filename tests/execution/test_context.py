"""The information about a call that a tool gets from its context."""

import pytest

from mcp_app.auth.principal import Principal


@pytest.mark.parametrize("tool", ["who_asks", "who_asks_async"])
def test_the_user_is_who_called_in_every_kind_of_tool(one_slot, tool):
    key = one_slot.text("make_user", {"name": f"ada-{tool}"})
    principal = Principal(issuer="django", subject=key, client_id="", label="ada", user_id=key)
    ended = one_slot.call(tool, principal=principal)
    assert ended["result"]["content"][0]["text"] == f"ada-{tool}", ended
    assert one_slot.text(tool) == "None"


def test_the_principal_is_the_one_that_the_authenticator_returned(one_slot):
    principal = Principal(issuer="shop", subject="ada", client_id="", label="Ada of the shop")
    ended = one_slot.call("by_whom", principal=principal)
    assert ended["result"]["content"][0]["text"] == "ada of shop", ended
