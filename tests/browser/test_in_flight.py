"""The list of requests in flight updates itself without disturbing a user who works in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.browser import pages
from tests.browser.callers import DOCUMENTS, call, ended, start_indexing
from tests.browser.chromium import expect
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse, Picture

TURN: Final = """(hidden) => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
AWAY: Final = """
window.isAway = true;
const answering = window.fetch;
window.fetch = (...asked) => (window.isAway ? Promise.reject(new TypeError("away")) : answering(...asked));
"""
LIVE: Final = "**/inflightrequest/live/**"
SECOND: Final = 1000
LATER: Final = 3


@pytest.fixture
def page(browse: "Browse") -> Iterator["Page"]:
    """Yields the list, and checks at the end that the page was not loaded again."""
    page = browse("operator")
    page.goto(pages.IN_FLIGHT)
    page.evaluate("window.loadedOnce = true")
    yield page
    assert page.evaluate("window.loadedOnce") is True


def renewed(page: "Page") -> None:
    """Wait until the page shows the next update."""
    page.evaluate("() => new Promise((done) => addEventListener('mcp:renewed', done, {once: true}))")


def test_the_list_moves_while_a_tool_runs(stack: Stack, steps: Path, page: "Page", picture: "Picture") -> None:
    expect(page.locator("#mcp-row-none")).to_be_visible()
    expect(page.locator("#action-toggle")).not_to_be_checked()
    renewed(page)
    expect(page.locator("#action-toggle")).not_to_be_checked()
    start_indexing(stack, steps)
    row = pages.row(page, "index_documents")
    expect(row).to_have_count(1)
    for column in ("done", "took", "said"):
        for _ in range(LATER):
            shown = row.locator(f".field-{column}").inner_text()
            expect(row.locator(f".field-{column}")).not_to_have_text(shown)
    expect(row.locator(".field-whereabouts")).to_contain_text("heard")
    expect(page.locator(".paginator")).to_contain_text("1 request in flight")
    expect(page.get_by_role("status")).to_have_text("")


def test_new_calls_appear_wait_in_their_queue_and_leave_when_they_have_ended(
    stack: Stack, tmp_path: Path, browse: "Browse"
) -> None:
    page = browse("auditor")
    page.goto(pages.IN_FLIGHT)
    for name in ("one", "two"):
        stack.running(call(stack, "wait_for_file", path=str(tmp_path / name)))
    rows, waiting = pages.row(page, "wait_for_file"), []
    for there in (3, 4):  # one after another, because calls of one moment share a place
        waiting.append(call(stack, "wait_for_file", path=str(tmp_path / "two")))
        expect(rows).to_have_count(there)
    expect(rows.nth(1)).to_contain_text("1st of 2 in")
    expect(rows.nth(0)).to_contain_text("2nd of 2 in")
    (tmp_path / "two").touch()
    for calling in waiting:
        assert ended(stack, calling).status == "completed"
    expect(page.locator("tr.mcp-left").first).to_contain_text("completed")
    expect(page.locator("tr.mcp-left")).to_have_count(0)
    expect(rows).to_have_count(1)
    page.reload()  # from here on only the times change
    (tmp_path / "one").touch()
    expect(page.locator("#mcp-row-none")).to_be_visible()
    expect(page.locator("#mcp-rows tr")).to_have_count(1)


def test_what_is_ticked_stays_and_nothing_moves_meanwhile(
    stack: Stack, steps: Path, tmp_path: Path, page: "Page"
) -> None:
    start_indexing(stack, steps)
    file = tmp_path / "file"
    finishing = call(stack, "wait_for_file", path=str(file))
    indexing, waits = pages.row(page, "index_documents"), pages.row(page, "wait_for_file")
    expect(waits).to_have_count(1)
    indexing.get_by_role("checkbox").check()
    expect(page.locator(".action-counter")).to_have_text("1 of 2 selected")
    page.get_by_label("Action:").focus()
    page.get_by_label("Action:").select_option(label="Cancel selected…")
    third = call(stack, "index_documents", path=str(tmp_path / "third"), documents=DOCUMENTS)
    file.touch()
    assert ended(stack, finishing).status == "completed"
    expect(waits).to_contain_text("completed")
    expect(waits).to_have_class("mcp-left")
    expect(page.locator("[data-waiting-for]")).to_contain_text("1 new")
    expect(indexing).to_have_count(1)
    expect(indexing.get_by_role("checkbox")).to_be_checked()
    expect(indexing).to_have_class("selected")
    expect(waits.get_by_role("checkbox")).to_be_disabled()
    expect(page.get_by_label("Action:")).to_be_focused()
    expect(page.get_by_label("Action:")).to_have_value("cancel_selected")
    expect(page.locator(".action-counter")).to_have_text("1 of 1 selected")

    indexing.get_by_role("checkbox").uncheck()
    page.mouse.move(5, 5)
    expect(indexing).to_have_count(2)
    expect(page.locator("[data-waiting-for]")).to_be_hidden()
    page.locator("#action-toggle").check()
    expect(page.locator(".action-counter")).to_have_text("2 of 2 selected")
    assert stack.row(third).status == "running"


def test_a_hidden_page_asks_nothing_and_one_that_is_seen_again_asks_at_once(browse: "Browse") -> None:
    page = browse("operator")
    page.clock.install()
    page.goto(pages.IN_FLIGHT)

    def turn(hidden: str) -> None:
        page.evaluate(TURN, hidden == "hidden")

    with page.expect_response(LIVE) as answered:
        page.clock.run_for(SECOND)
    answered.value.finished()
    page.evaluate("document.fonts.ready")  # the response has been handled
    turn("hidden")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60 * SECOND)
    assert asked == []
    with page.expect_request(LIVE):
        turn("visible")


def test_the_keyboard_reaches_a_row_that_came_and_keeps_its_place(stack: Stack, steps: Path, page: "Page") -> None:
    start_indexing(stack, steps)
    row = pages.row(page, "index_documents")
    expect(row).to_have_count(1)
    box = row.get_by_role("checkbox")
    for _ in range(pages.TABS):
        page.keyboard.press("Tab")
        if box.evaluate("field => field === document.activeElement"):
            break
    renewed(page)
    expect(box).to_be_focused()
    page.keyboard.press("Space")
    renewed(page)
    expect(box).to_be_checked()
    page.keyboard.press("Tab")
    expect(row.get_by_role("link")).to_be_focused()


def test_it_says_that_the_server_does_not_answer_and_goes_on_when_it_does(browse: "Browse") -> None:
    page = browse("operator")
    page.add_init_script(AWAY)
    page.goto(pages.IN_FLIGHT)
    expect(page.get_by_role("status")).to_contain_text("server does not answer")
    page.evaluate("window.isAway = false")
    expect(page.get_by_role("status")).to_have_text("")
    renewed(page)


def test_it_stops_and_says_so_when_its_user_is_logged_out(browse: "Browse") -> None:
    page = browse("operator")
    page.goto(pages.IN_FLIGHT)
    page.context.clear_cookies()
    expect(page.get_by_role("status")).to_contain_text("load the page")
