"""A tool that is disabled on its page disappears for connected clients, and they are notified."""

from typing import TYPE_CHECKING

from tests.acceptance.test_subscriptions import listen
from tests.browser import pages
from tests.support.site import wire
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse

TOOL = "echo"
CHANGED = "notifications/tools/list_changed"


def offered(stack: Stack) -> set[str]:
    listed = stack.post(wire.message("tools/list")).result()
    return {tool["name"] for tool in listed["tools"]}


def switch(page: "Page", *, on: bool) -> None:
    page.goto(pages.tool(TOOL))
    page.get_by_label("Enabled").set_checked(on)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("was changed successfully").wait_for()


def test_a_tool_switched_off_on_its_page_vanishes_for_connected_clients(stack: Stack, browse: "Browse") -> None:
    stream = listen(stack)
    heard = stream.messages()
    assert next(heard)["method"] == "notifications/subscriptions/acknowledged"
    manager = browse("manager")

    switch(manager, on=False)
    assert next(heard)["method"] == CHANGED
    assert TOOL not in offered(stack)
    refused = stack.call(TOOL, text="hello").answer()
    assert refused["error"]["code"] == -32602

    switch(manager, on=True)
    assert next(heard)["method"] == CHANGED
    assert TOOL in offered(stack)
    assert wire.text(stack.call(TOOL, text="hello").result()) == "hello"
