"""Every admin page of this app fits a narrow screen, and is readable in the light and the dark theme."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import pages
from tests.browser.callers import CLIENT, call, ended, start_indexing
from tests.browser.chromium import expect
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse

SCREENS = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 844}}
LONG = "x" * 300
READABLE = 4.5
"""The contrast of text and background that WCAG 2.2 requires (1.4.3)."""

OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
UNREADABLE = """async (readable) => {
    const transitions = document.getAnimations().filter((each) => each instanceof CSSTransition);
    await Promise.allSettled(transitions.map((each) => each.finished));
    const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const ground = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const colour = channels(getComputedStyle(each).backgroundColor);
            if (colour.length < 4 || colour[3] > 0.5) return colour;
        }
        return [255, 255, 255];
    };
    const luminance = ([...rgb]) => {
        const [r, g, b] = rgb.slice(0, 3).map((c) => c / 255)
            .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (element) => {
        const [a, b] = [channels(getComputedStyle(element).color), ground(element)].map(luminance);
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    return [...document.querySelectorAll("[class*=mcp-]")]
        .filter((element) => element.checkVisibility() && element.innerText && contrast(element) < readable)
        .map((element) => `${element.className}: ${contrast(element).toFixed(2)}`);
}"""


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_fits_and_is_readable(screen: str, stack: Stack, steps: Path, browse: "Browse") -> None:
    _, running = start_indexing(stack, steps)
    long = call(stack, "hostile_texts", {**CLIENT, "name": LONG}, text=LONG)
    stack.running(long)
    page = browse("chief", viewport=SCREENS[screen])
    pages.cancel(page, stack.row(long).id, LONG)
    stopped = ended(stack, long)
    for name in visits(page, running.id, stopped.id):
        assert page.evaluate(OVERFLOW) <= 0, f"{name} is wider than the screen"
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(UNREADABLE, READABLE) == [], f"{name} is hard to read in the {scheme}"


def visits(page: "Page", running: str, stopped: str) -> Iterator[str]:
    """Go to each admin page of this app, and yield its name when it is shown."""
    for path in (
        pages.INDEX,
        pages.REQUESTS,
        pages.IN_FLIGHT,
        pages.CANCELLED,
        pages.CANCELLATIONS,
        pages.ACTIVITY,
        pages.TOOLS,
        pages.SESSIONS,
        pages.LISTEN_STREAMS,
        pages.tool("index_documents"),
        pages.request(running),
        pages.request(stopped),
    ):
        page.goto(path)
        expect(page.get_by_role("main")).to_be_visible()
        yield path
    page.goto(pages.CANCELLATIONS)
    page.locator("#result_list tbody tr").first.get_by_role("link").first.click()
    expect(page.get_by_text("what happened")).to_be_visible()
    yield "the page of a cancellation"
    page.goto(pages.IN_FLIGHT)
    pages.select_all_to_cancel(page)
    yield "the page that asks why"
