"""A user with view permissions finds a cancelled request, and its audit row with actor and reason, also as CSV."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser import pages
from tests.browser.callers import ended, start_indexing
from tests.browser.chromium import expect
from tests.support.site.inspector import Row
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse

REASON = "indexes the archive, which nobody asked for"


def cancelled(stack: Stack, steps: Path, browse: "Browse") -> Row:
    """Returns a request that the operator has cancelled, and whose work has stopped."""
    calling, running = start_indexing(stack, steps)
    pages.cancel(browse("operator"), running.id, REASON)
    return ended(stack, calling)


def follow(page: "Page", name: str) -> None:
    """Go from the admin's first page to a list."""
    page.goto(pages.INDEX)
    page.get_by_role("main").get_by_role("link", name=name, exact=True).first.click()


def test_a_cancelled_request_is_found_with_its_story(stack: Stack, steps: Path, browse: "Browse") -> None:
    row = cancelled(stack, steps, browse)
    page = browse("auditor")
    follow(page, "Cancelled requests")
    found = pages.row(page, "index_documents", REASON).first
    for told in ("administrator", "operator", "cancelled"):
        expect(found).to_contain_text(told)
    found.get_by_role("link").first.click()
    expect(page).to_have_url(pages.request(row.id))
    story = page.locator("#mcp-story")
    for told in ("accepted", "operator", "127.0.0.1", "administrator", REASON, "It ended as cancelled"):
        expect(story).to_contain_text(told)


def test_its_audit_row_is_found_and_exported(stack: Stack, steps: Path, browse: "Browse") -> None:
    row = cancelled(stack, steps, browse)
    page = browse("auditor")
    follow(page, "Cancellations")
    found = pages.row(page, "index_documents", REASON).first
    for told in ("administrator", "operator", "accepted"):
        expect(found).to_contain_text(told)
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as CSV").click()
    with download.value.path().open(encoding="utf-8-sig", newline="") as file:
        [exported] = [line for line in csv.DictReader(file) if line["request_id"] == row.id]
    [attempt] = row.attempts
    assert exported["cause"] == "admin"
    assert exported["actor"] == "operator"
    assert exported["reason"] == REASON
    assert exported["outcome"] == "accepted"
    assert float(exported["latency_ms"]) == attempt.latency_ms
