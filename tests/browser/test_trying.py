"""A user tries a tool from its page: the form makes a real call, the page shows it, and cancelling stops its work."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.test_disconnect import assert_stopped
from tests.browser import pages
from tests.browser.callers import DOCUMENTS, PATIENCE
from tests.browser.chromium import expect
from tests.browser.hostile import MARKUP
from tests.browser.test_hostile import assert_inert
from tests.browser.test_looks import OVERFLOW, READABLE, SCREENS, UNREADABLE
from tests.support.site.inspector import Row
from tests.support.site.stack import Stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.conftest import Browse, Picture

SENT_TWICE = """form => Promise.all([1, 2].map(() =>
    fetch(form.action, {method: "POST", body: new FormData(form)}).then(answer => answer.url)))"""
"""Sends the form twice, like a button that is pressed twice, but keeps the first response."""
LATER = 3
STEPS = 5
ON_ITS_PAGE = re.compile(r"/admin/mcp_app/request/([0-9a-f-]{36})/change/$")


@dataclass(frozen=True)
class Tried:
    """A call that a page made. The id of its row is also its client's request id."""

    request_id: str


def tried(page: "Page") -> Tried:
    """Return the call that the current page shows."""
    expect(page).to_have_url(ON_ITS_PAGE)
    found = ON_ITS_PAGE.search(page.url)
    assert found is not None
    return Tried(found[1])


def press(page: "Page") -> None:
    page.get_by_role("button", name="Run it").click()


def start_indexing(page: "Page", steps: Path) -> Tried:
    page.goto(pages.trying("index_documents"))
    page.get_by_label("path").fill(str(steps))
    page.get_by_label("documents").fill(str(DOCUMENTS))
    press(page)
    calling = tried(page)
    eventually(steps.exists, "it takes a step", PATIENCE)
    return calling


def ended(stack: Stack, calling: Tried) -> Row:
    return stack.ended(calling, PATIENCE)


def tab_to(page: "Page", wanted: "Locator") -> None:
    for _ in range(pages.TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    expect(wanted).to_be_focused()


def test_the_keyboard_alone_runs_a_tool_watches_it_and_cancels_it(stack: Stack, steps: Path, browse: "Browse") -> None:
    page = browse("tester")
    page.goto(pages.tool("index_documents"))
    tab_to(page, page.get_by_role("link", name="Try it"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("path"))
    page.keyboard.type(str(steps))
    tab_to(page, page.get_by_label("documents"))
    page.keyboard.type(str(DOCUMENTS))
    tab_to(page, page.get_by_role("button", name="Run it"))
    page.keyboard.press("Enter")
    calling = tried(page)
    progress = page.locator("#mcp-progress")
    expect(progress.locator("progress")).to_have_attribute("max", f"{DOCUMENTS:.1f}")
    for _ in range(LATER):
        expect(progress).not_to_have_text(progress.inner_text())
    tab_to(page, page.get_by_label("Reason"))
    page.keyboard.type("only tried")
    tab_to(page, page.get_by_role("button", name="Cancel this request"))
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_have_text("1 cancelled")
    row = ended(stack, calling)
    assert (row.status, row.cancel_cause, row.cancel_actor) == ("cancelled", "admin", "tester")
    assert row.cancel_reason == "only tried"
    assert_stopped(row, steps)
    expect(page.locator("#mcp-partial-result")).to_contain_text(f"of {DOCUMENTS} documents are indexed")


def test_the_result_of_a_tool_appears_on_the_page_that_the_form_led_to(
    stack: Stack, browse: "Browse", picture: "Picture"
) -> None:
    page = browse("tester", viewport={"width": 1280, "height": 1500})
    page.goto(pages.trying("order_parts"))
    page.get_by_label("name:").fill("axle\nlong")
    page.get_by_label("count:").fill("2")
    page.get_by_label("price:").fill("12.25")
    page.get_by_label("colour_of_box:").select_option("blue")
    page.get_by_label("day:").fill("2026-11-22")
    page.get_by_label("at:", exact=True).fill("2026-11-22T15:30")
    page.get_by_label("contact:").fill("ada@example.org")
    page.get_by_label("notes:").fill("fragile\nheavy")
    page.get_by_label("extra:").fill('{"screws": 8}')
    page.get_by_label("urgent").check()
    page.get_by_label("colours:").select_option(["red", "blue"])
    page.get_by_label("street:").first.fill("1 rue A")
    picture("trying", page)
    press(page)
    calling = tried(page)
    result = page.locator("#mcp-result")
    for told in (
        '"name": "axle\\nlong"', '"count": "2"', '"price": "12.25"', "Colour.BLUE", "2026-11-22 15:30:00+00:00",
        "ada@example.org", "['fragile', 'heavy']", "{'screws': 8}", '"urgent": "True"', "street='1 rue A'",
        '"invoice_to": "None"',
    ):  # fmt: skip
        expect(result).to_contain_text(told)
    assert ended(stack, calling).status == "completed"


def test_what_does_not_fit_is_told_beside_its_field_and_what_was_filled_in_stays(browse: "Browse") -> None:
    page = browse("tester")
    page.goto(pages.trying("order_parts"))
    page.get_by_label("name:").fill("axle")
    page.get_by_label("count:").fill("0")
    page.get_by_label("street:").first.fill("1 rue A")
    press(page)
    wrong = page.locator(".form-row").filter(has=page.locator(".errorlist"))
    expect(wrong).to_have_count(1)
    expect(wrong).to_contain_text(re.compile(r"greater than or equal to 1\b.* 0"))
    expect(page.get_by_label("name:")).to_have_value("axle")
    page.get_by_label("count:").fill("many")
    press(page)
    expect(wrong).to_contain_text("whole number")
    page.get_by_label("count:").fill("2")
    page.get_by_role("button", name="Fill in as JSON").click()
    expect(page.get_by_label("Arguments")).to_have_value(re.compile('"street": "1 rue A"'))
    page.get_by_role("button", name="Fill in fields").click()
    expect(page.get_by_label("count:")).to_have_value("2")


def test_closing_the_browser_does_not_cancel(stack: Stack, steps: Path, browse: "Browse") -> None:
    page = browse("tester")
    calling = start_indexing(page, steps)
    page.close()
    taken = len(steps.read_text().splitlines())
    eventually(lambda: len(steps.read_text().splitlines()) > taken + STEPS, "it goes on", PATIENCE)
    assert (stack.row(calling).status, stack.row(calling).cancel_cause) == ("running", "")
    pages.cancel(browse("operator"), calling.request_id, "seen enough")
    assert_stopped(ended(stack, calling), steps)


def test_a_button_that_is_pressed_twice_calls_once(stack: Stack, tmp_path: Path, browse: "Browse") -> None:
    page = browse("tester")
    page.goto(pages.trying("wait_for_file"))
    file = tmp_path / "file"
    page.get_by_label("path").fill(str(file))
    first, second = page.locator("#mcp-try").evaluate(SENT_TWICE)
    assert first == second
    press(page)
    calling = tried(page)
    assert page.url == first
    expect(page.get_by_text("already made")).to_be_visible()
    page.goto(pages.IN_FLIGHT)
    expect(pages.row(page, "wait_for_file")).to_have_count(1)
    file.touch()
    assert ended(stack, calling).status == "completed"


def test_names_and_texts_of_a_schema_are_inert(stack: Stack, browse: "Browse") -> None:
    page = browse("tester")
    page.goto(pages.trying("hostile_schema"))
    assert_inert(page, shown=6)
    expect(page.get_by_label("choice")).to_contain_text(MARKUP[:30])
    press(page)
    row = ended(stack, tried(page))
    assert row.result["content"][0]["text"] == "1", "of the default that the form shows"


def test_who_may_not_try_tools_finds_no_way_to(browse: "Browse") -> None:
    page = browse("manager")
    page.goto(pages.tool("order_parts"))
    expect(page.get_by_role("link", name="History")).to_be_visible()
    expect(page.get_by_role("link", name="Try it")).to_have_count(0)
    assert page.request.get(pages.trying("order_parts")).status == 403


@pytest.mark.parametrize("screen", SCREENS)
def test_the_form_fits_and_is_readable(screen: str, browse: "Browse", picture: "Picture") -> None:
    page = browse("tester", viewport=SCREENS[screen])
    for state in ("fields", "errors", "json"):
        page.goto(pages.trying("order_parts"))
        if state == "errors":
            page.locator("#mcp-try").evaluate("form => { form.noValidate = true; }")
            page.get_by_label("extra:").fill("{" * 100)
            press(page)
            expect(page.locator(".errornote")).to_be_visible()
        elif state == "json":
            page.get_by_role("button", name="Fill in as JSON").click()
            expect(page.get_by_label("Arguments")).to_be_visible()
        assert page.evaluate(OVERFLOW) <= 0, f"{state} is wider than the screen"
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(UNREADABLE, READABLE) == [], f"{state} is hard to read in the {scheme}"
            picture(f"trying-{screen}-{state}-{scheme}", page)
