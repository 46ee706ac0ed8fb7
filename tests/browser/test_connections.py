"""The admin shows and closes connections: a session with its calls, a listen stream with its result."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.acceptance.test_disconnect import assert_stopped
from tests.browser import pages
from tests.browser.callers import CLIENT, DOCUMENTS, call
from tests.browser.chromium import expect
from tests.browser.test_trying import tab_to
from tests.support.site import legacy_wire
from tests.support.site.stack import Stack
from tests.support.site.wire import META, message
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse, Picture


def seen(page: "Page", path: str, *texts: str) -> None:
    """Load a list until it has one row with all these texts, because rows are written a moment later."""

    def has_row() -> bool:
        page.goto(path)
        return pages.row(page, *texts).count() == 1

    eventually(has_row, f"a row with {texts}")


def test_a_session_is_seen_and_closed_and_its_work_stops(
    stack: Stack, steps: Path, browse: "Browse", picture: "Picture"
) -> None:
    client = legacy_wire.Client.opened(stack)
    calling = client.call("index_documents", path=str(steps), documents=DOCUMENTS)
    eventually(steps.exists, "it takes a step")
    page = browse("janitor")
    page.set_viewport_size({"width": 1280, "height": 500})
    seen(page, pages.SESSIONS, "acceptance 1", "2025-11-25")
    picture("sessions", page)
    pages.row(page, "acceptance 1").get_by_role("link").first.click()
    page.get_by_role("link", name="Close…").click()
    page.get_by_label("Reason").fill("it floods us")
    page.get_by_role("button", name="Close 1 session").click()
    expect(page.locator(".messagelist")).to_have_text(re.compile(r"closed: 1\b.*cancelled: 1\b"))
    expect(pages.row(page, "acceptance 1")).to_have_count(0)
    row = stack.ended(calling, 30.0)
    assert (row.status, row.cancel_cause, row.cancel_actor, row.cancel_reason) == (
        *("cancelled", "admin", "janitor"),
        "it floods us",
    )
    assert_stopped(row, steps)
    assert client.request("ping").response.status == 404


def test_a_listen_stream_is_seen_and_closed(stack: Stack, browse: "Browse", picture: "Picture") -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": True}
    stream = stack.post(message("subscriptions/listen", meta={META + "clientInfo": CLIENT}, notifications=wanted))
    assert next(stream.messages())["method"] == "notifications/subscriptions/acknowledged"
    page = browse("janitor")
    page.set_viewport_size({"width": 1280, "height": 500})
    seen(page, pages.LISTEN_STREAMS, "list of tools")
    picture("listen-streams", page)
    page.locator("#action-toggle").check()
    page.get_by_label("Action:").select_option(label="Close selected…")
    pages.run_action(page)
    page.get_by_role("button", name="Close 1 listen stream").click()
    expect(page.locator(".messagelist")).to_contain_text("closed: 1.")
    [final] = stream.messages()
    assert final["result"]["resultType"] == "complete"
    eventually(lambda: page.reload() and pages.row(page, "list of tools").count() == 0, "its row is gone")


def test_the_list_of_listen_streams_keeps_itself_current(stack: Stack, browse: "Browse") -> None:
    page = browse("janitor")
    page.goto(pages.LISTEN_STREAMS)
    page.evaluate("window.loadedOnce = true")
    expect(page.locator("#mcp-row-none")).to_be_visible()
    wanted = {"toolsListChanged": True}
    stream = stack.post(message("subscriptions/listen", meta={META + "clientInfo": CLIENT}, notifications=wanted))
    row = pages.row(page, "list of tools")
    expect(row).to_have_count(1)
    expect(page.locator(".paginator")).to_contain_text("1 listen stream")
    tab_to(page, row.get_by_role("checkbox"))
    page.keyboard.press("Space")
    expect(page.locator(".action-counter")).to_contain_text("1 of 1 selected")
    page.keyboard.press("Space")
    page.locator("#searchbar").focus()
    stream.close()
    expect(row).to_have_count(0)
    assert page.evaluate("window.loadedOnce") is True


def test_the_list_of_sessions_keeps_itself_current(stack: Stack, tmp_path: Path, browse: "Browse") -> None:
    page = browse("janitor")
    page.goto(pages.SESSIONS)
    page.evaluate("window.loadedOnce = true")
    client = legacy_wire.Client.opened(stack)
    row = pages.row(page, "acceptance 1")
    expect(row.locator(".field-open_calls")).to_have_text("0")
    client.call("wait_for_file", path=str(tmp_path / "file"))
    expect(row.locator(".field-open_calls")).to_have_text("1")
    (tmp_path / "file").touch()
    expect(row.locator(".field-open_calls")).to_have_text("0")
    assert page.evaluate("window.loadedOnce") is True


def test_a_tools_page_tells_what_of_it_runs(stack: Stack, tmp_path: Path, browse: "Browse") -> None:
    page = browse("chief")
    page.goto(pages.tool("wait_for_file"))
    page.evaluate("window.loadedOnce = true")
    running = page.locator("#mcp-now-running")
    expect(running).to_have_text("0")
    call(stack, "wait_for_file", path=str(tmp_path / "file"))
    expect(running).to_have_text("1")
    (tmp_path / "file").touch()
    expect(running).to_have_text("0")
    assert page.evaluate("window.loadedOnce") is True
