"""A request's page updates itself without being loaded again."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser import pages
from tests.browser.callers import DOCUMENTS, start_indexing
from tests.browser.chromium import expect
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from tests.browser.conftest import Browse

LATER = 3


def test_the_progress_of_a_running_request_moves_on_its_page(stack: Stack, steps: Path, browse: "Browse") -> None:
    _, running = start_indexing(stack, steps)
    page = browse("operator")
    page.goto(pages.request(running.id))
    page.evaluate("window.loadedOnce = true")
    progress = page.locator("#mcp-progress")
    expect(progress.locator("progress")).to_have_attribute("max", f"{DOCUMENTS:.1f}")
    for _ in range(LATER):
        shown = progress.text_content() or ""
        expect(progress).not_to_have_text(shown)
    assert page.evaluate("window.loadedOnce")


def test_the_end_of_a_request_appears_on_its_page(stack: Stack, steps: Path, browse: "Browse") -> None:
    calling, running = start_indexing(stack, steps)
    page = browse("operator")
    page.goto(pages.request(running.id))
    page.evaluate("window.loadedOnce = true")
    page.evaluate("window.watched = document.getElementById('mcp-live')")
    expect(pages.cancel_form(page)).to_be_visible()
    calling.close()
    expect(page.locator("#mcp-story")).to_contain_text("client disconnected")
    expect(page.locator("#mcp-summary .mcp-badge").first).to_have_text("cancelled")
    expect(pages.cancel_form(page)).to_have_count(0)
    assert page.evaluate("window.loadedOnce")
    # The element is still part of the page, and it sends no more requests.
    assert page.evaluate("window.watched.isConnected && !('open' in window.watched.dataset)")
