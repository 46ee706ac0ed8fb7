"""Texts that clients, tools and administrators wrote stay text on every page that shows them."""

from typing import TYPE_CHECKING

import pytest

from tests.browser import pages
from tests.browser.callers import answer, call, ended
from tests.browser.chromium import expect
from tests.browser.hostile import INJECTED, MARKUP, RIGHT_TO_LEFT, TEXT
from tests.support.site.stack import Stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse

CLIENT = {"name": TEXT, "version": TEXT}


def assert_inert(page: "Page", *, shown: int) -> None:
    """Check that the page shows the hostile text in at least `shown` places, always as text."""
    text = page.locator("body").inner_text()
    assert text.count(MARKUP[:30]) >= shown
    assert RIGHT_TO_LEFT not in text
    expect(page.locator(f"#{INJECTED}")).to_have_count(0)


@pytest.mark.fault("G7")
def test_texts_of_clients_and_tools_are_inert(stack: Stack, browse: "Browse") -> None:
    calling = call(stack, "hostile_texts", CLIENT, text=TEXT)
    running = eventually(lambda: row if "progress" in (row := stack.running(calling)).story else None, "progress")
    assert running is not None
    page = browse("operator")
    for path in (pages.REQUESTS, pages.IN_FLIGHT):
        page.goto(path)
        assert_inert(page, shown=2)
    page.goto(pages.request(running.id))
    assert_inert(page, shown=5)
    pages.cancel(page, running.id, TEXT)
    told = answer(calling)
    assert all(fact in told for fact in ("cancelled", "administrator"))
    ended(stack, calling)
    expect(page.locator("#mcp-partial-result")).to_be_visible()
    assert_inert(page, shown=6)
    for path in (pages.CANCELLED, pages.CANCELLATIONS):
        page.goto(path)
        assert_inert(page, shown=1)
    page.locator("#result_list tbody tr").first.get_by_role("link").first.click()
    expect(page.get_by_role("main")).to_contain_text("ended as cancelled")
    assert_inert(page, shown=1)


@pytest.mark.fault("G7")
def test_a_result_is_inert(stack: Stack, browse: "Browse") -> None:
    calling = call(stack, "echo", CLIENT, text=TEXT)
    assert answer(calling) == TEXT
    page = browse("operator")
    page.goto(pages.request(ended(stack, calling).id))
    expect(page.locator("#mcp-result")).to_be_visible()
    assert_inert(page, shown=3)


def test_an_administrators_words_for_a_tool_are_inert(browse: "Browse") -> None:
    page = browse("manager")
    page.goto(pages.tool("add"))
    page.get_by_label("Title").fill(MARKUP)
    page.get_by_label("Description").first.fill(MARKUP)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("was changed successfully").wait_for()
    assert_inert(page, shown=1)
    page.goto(f"{pages.TOOLS}add/history/")
    assert_inert(page, shown=1)
