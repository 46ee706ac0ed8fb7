"""The addresses of this app's admin pages, and actions that several tests perform on them."""

import re
from typing import TYPE_CHECKING, Final

from tests.browser.chromium import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

INDEX: Final = "/admin/"
REQUESTS: Final = "/admin/mcp_app/request/"
IN_FLIGHT: Final = "/admin/mcp_app/inflightrequest/"
CANCELLED: Final = "/admin/mcp_app/cancelledrequest/"
CANCELLATIONS: Final = "/admin/mcp_app/cancellation/"
ACTIVITY: Final = "/admin/mcp_app/tally/"
TOOLS: Final = "/admin/mcp_app/tool/"
TOKENS: Final = "/admin/mcp_app/token/"
SESSIONS: Final = "/admin/mcp_app/session/"
LISTEN_STREAMS: Final = "/admin/mcp_app/listenstream/"
TABS: Final = 150
"""More presses of Tab than any place of a page needs. From Django 6.1, a list's filters come before its rows."""


def request(request_id: str) -> str:
    """Return the address of a request's page."""
    return f"{REQUESTS}{request_id}/change/"


def tool(name: str) -> str:
    return f"{TOOLS}{name}/change/"


def trying(name: str) -> str:
    """Return the address of the page that calls a tool."""
    return f"{TOOLS}{name}/try/"


def row(page: "Page", *texts: str) -> "Locator":
    """Return the rows of a list that contain all these texts."""
    rows = page.locator("#result_list tbody tr")
    for text in texts:
        rows = rows.filter(has_text=text)
    return rows


def cancel_form(page: "Page") -> "Locator":
    return page.locator("#mcp-cancel")


def cancel(page: "Page", request_id: str, reason: str) -> None:
    """Cancel a request on its page, and wait for the confirmation."""
    page.goto(request(request_id))
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Cancel this request").click()
    expect(page.locator(".messagelist")).to_have_text("1 cancelled")


def select_all_to_cancel(page: "Page") -> None:
    """Select all requests of a list, and go to the page that asks for the reason."""
    page.locator("#action-toggle").check()
    page.get_by_label("Action:").select_option(label="Cancel selected…")
    run_action(page)
    page.get_by_label("Reason").wait_for()


def run_action(page: "Page") -> None:
    """Run the chosen action of a list. The button is `Go`, or `Run` from Django 6.1."""
    page.get_by_role("button", name=re.compile("^(Go|Run)$")).click()


def without_sidebar(page: "Page", path: str) -> None:
    """Go to a list, without the admin's sidebar."""
    page.goto(path)
    page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
    page.goto(path)
