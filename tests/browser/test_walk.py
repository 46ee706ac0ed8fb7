"""The walk through an audit in docs/how-to/audit.md, step by step, on the example site's tools. Makes its pictures.

MCP_PICTURES=docs/images python -m pytest -m browser tests/browser/test_walk.py
"""

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.browser import pages
from tests.browser.callers import PATIENCE, assert_told_cancelled, call, ended
from tests.browser.chromium import expect
from tests.support.site.inspector import Row
from tests.support.site.stack import Stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse, Picture
    from tests.support.site.wire import Connection

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = DOCS / "how-to/audit.md"
LINES: Final = 200_000
REASON: Final = "Last year's list: wait for the new one"
CURSOR: Final = {"name": "cursor", "version": "3.2"}
NARROW: Final = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture
def importing(stack: Stack) -> "Connection":
    """Returns a long import by an AI client, in the middle. Before it, another call was left by its client."""
    left = call(stack, "evaluate_python", CURSOR, user="chief", code="while True: pass")
    stack.running(left, 0.2)
    left.close()
    ended(stack, left)
    contacts = "".join(f"contact{number}@example.org,Contact {number}\n" for number in range(LINES))
    (stack.data / "uploads" / "suppliers.csv").write_text("email,name\n" + contacts)
    calling = call(stack, "import_csv", user="chief", file="suppliers.csv", mode="batches", batch_size=100)
    eventually(lambda: stack.row(calling).story.count("progress") > 1, "lines are stored", PATIENCE)
    return calling


def test_the_walk_through_an_audit(stack: Stack, importing: "Connection", browse: "Browse", picture: "Picture") -> None:
    operator = browse("operator")
    cancel_what_runs(operator, picture)
    assert_told_cancelled(importing, REASON)
    row = ended(stack, importing)
    chief = browse("chief")
    find_it_among_the_cancelled(chief, row, picture)
    see_what_had_been_done(chief, row, picture)
    find_it_in_the_audit(chief, row, picture)
    see_the_tool(chief, picture)
    look_otherwise(browse, row, picture)


def test_every_picture_of_the_pages_is_kept() -> None:
    shown = {
        page.parent / path
        for page in DOCS.rglob("*.md")
        for path in re.findall(r"\]\(([./]*images/[\w-]+\.png)\)", page.read_text())
    }
    assert {path.resolve() for path in shown} == set((DOCS / "images").glob("*.png"))


def cancel_what_runs(page: "Page", picture: "Picture") -> None:
    pages.without_sidebar(page, pages.IN_FLIGHT)
    found = pages.row(page, "import_csv")
    expect(found).to_contain_text("lines stored")
    picture("in-flight", page)
    found.get_by_role("link").click()
    page.get_by_label("Reason").fill(REASON)
    picture("running", page)
    page.get_by_role("button", name="Cancel this request").click()
    expect(page.locator(".messagelist")).to_have_text("1 cancelled")


def find_it_among_the_cancelled(page: "Page", row: Row, picture: "Picture") -> None:
    pages.without_sidebar(page, pages.INDEX)
    page.get_by_role("main").get_by_role("link", name="Cancelled requests").first.click()
    page.get_by_role("link", name="Past 7 days").click()
    found = pages.row(page, "import_csv", REASON)
    for told in ("administrator", "operator", "cooperative"):
        expect(found).to_contain_text(told)
    picture("cancelled", page)
    found.get_by_role("link").click()
    expect(page.get_by_role("heading", name=row.id)).to_be_visible()


def see_what_had_been_done(page: "Page", row: Row, picture: "Picture") -> None:
    story = page.locator("#mcp-story")
    for told in ("operator (127.0.0.1)", "administrator", f"“{REASON}”", "ended as cancelled"):
        expect(story).to_contain_text(told)
    stored = row.partial_result["structuredContent"]["stored"]
    assert 0 < stored < LINES
    partial = page.locator("#mcp-partial-result")
    expect(partial).to_contain_text(f'"stored": {stored}')
    expect(page.locator("#mcp-timeline")).to_contain_text(f"{stored} of {LINES} lines stored")
    picture("story", page)
    picture("timeline", page.locator("#mcp-timeline"))
    picture("partial-result", partial)


def find_it_in_the_audit(page: "Page", row: Row, picture: "Picture") -> None:
    page.goto(pages.INDEX)
    page.get_by_role("main").get_by_role("link", name="Cancellations").first.click()
    page.get_by_role("link", name="Last 7 days").click()
    found = pages.row(page, "import_csv", REASON)
    for told in ("administrator", "operator", "accepted", "cooperative"):
        expect(found).to_contain_text(told)
    picture("cancellations", page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as CSV").click()
    with download.value.path().open(encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file)
        assert [line["reason"] for line in table if line["request_id"] == row.id] == [REASON]
    assert table.fieldnames == re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    found.get_by_role("link").first.click()
    expect(page.get_by_role("main")).to_contain_text(re.compile("ended as .* cooperative"))
    expect(page.locator(".submit-row input")).to_have_count(0)
    picture("cancellation", page)


def see_the_tool(page: "Page", picture: "Picture") -> None:
    page.goto(pages.tool("import_csv"))
    expect(page.get_by_text("Offered to clients.")).to_be_visible()
    picture("tool", page)


def look_otherwise(browse: "Browse", row: Row, picture: "Picture") -> None:
    for name, options in {"dark": {"color_scheme": "dark"}, "narrow": NARROW}.items():
        page = browse("chief", **options)
        page.goto(pages.request(row.id))
        expect(page.locator("#mcp-story")).to_be_visible()
        picture(name, page)
