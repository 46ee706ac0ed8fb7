"""Work that is cancelled in the admin with a reason stops, and its client receives an error."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.acceptance.test_disconnect import assert_stopped
from tests.browser import pages
from tests.browser.callers import DOCUMENTS, answer, assert_told_cancelled, call, ended, start_indexing
from tests.browser.chromium import expect
from tests.support.site import programs
from tests.support.site.stack import Stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.browser.conftest import Browse

KILL = 3


def test_work_cancelled_on_its_page_stops_and_its_client_is_told(stack: Stack, steps: Path, browse: "Browse") -> None:
    calling, running = start_indexing(stack, steps)
    page = browse("operator")
    pages.cancel(page, running.id, "the wrong folder")
    assert_told_cancelled(calling, "the wrong folder")
    row = ended(stack, calling)
    assert (row.status, row.cancel_cause, row.cancel_actor) == ("cancelled", "admin", "operator")
    assert_stopped(row, steps)
    expect(page.locator("#mcp-story")).to_contain_text("ended as cancelled")
    expect(page.locator("#mcp-partial-result")).to_contain_text(f"of {DOCUMENTS} documents are indexed")
    expect(pages.cancel_form(page)).to_have_count(0)


def test_work_that_refuses_to_stop_is_killed_from_its_page(stack: Stack, steps: Path, browse: "Browse") -> None:
    calling = call(stack, "stubborn", seconds=600, path=str(steps), step=0.05)
    eventually(steps.exists, "it takes a step")
    running = stack.running(calling)
    page = browse("operator")
    pages.cancel(page, running.id, "does not listen")
    row = ended(stack, calling)
    assert (row.status, row.stage) == ("cancelled", KILL)
    assert running.worker_pid is not None
    assert not programs.is_alive(running.worker_pid)
    assert_stopped(row, steps)
    expect(page.locator("#mcp-story")).to_contain_text(re.compile("ended as .* kill"))


def test_several_are_cancelled_from_the_list_and_what_had_finished_is_counted_apart(
    stack: Stack, steps: Path, tmp_path: Path, browse: "Browse"
) -> None:
    indexing, _ = start_indexing(stack, steps)
    file = tmp_path / "file"
    finishing = call(stack, "wait_for_file", path=str(file))
    stack.running(finishing)
    queued = call(stack, "index_documents", path=str(tmp_path / "later"), documents=DOCUMENTS)
    assert stack.row(queued).status == "queued"

    page = browse("operator")
    page.goto(pages.IN_FLIGHT)
    pages.select_all_to_cancel(page)
    file.touch()
    assert answer(finishing) == "It is there."
    page.get_by_label("Reason").fill("all wrong")
    page.get_by_role("button", name="Cancel 3 requests").click()
    expect(page.locator(".messagelist")).to_have_text(re.compile(r"^\s*2 cancelled, 1 [^,]*finished\s*$"))
    for calling in (indexing, queued):
        assert_told_cancelled(calling, "all wrong")
        row = ended(stack, calling)
        assert (row.status, row.cancel_reason) == ("cancelled", "all wrong")
    assert_stopped(ended(stack, indexing), steps)
    row = ended(stack, finishing)
    assert row.status == "completed"
    assert [attempt.outcome for attempt in row.attempts] == ["too_late"]


def test_the_keyboard_alone_cancels(stack: Stack, steps: Path, browse: "Browse") -> None:
    calling, running = start_indexing(stack, steps)
    page = browse("operator")
    page.goto(pages.request(running.id))
    reason = page.get_by_label("Reason")
    for _ in range(pages.TABS):
        page.keyboard.press("Tab")
        if reason.evaluate("field => field === document.activeElement"):
            break
    expect(reason).to_be_focused()
    page.keyboard.type("no mouse")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Cancel this request")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_have_text("1 cancelled")
    assert_told_cancelled(calling, "no mouse")
