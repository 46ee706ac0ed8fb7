"""The Tab key reaches every control of each of this app's admin pages."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.browser import pages
from tests.browser.callers import CLIENT, call
from tests.browser.chromium import expect
from tests.support.site.stack import Stack
from tests.support.site.wire import META, message

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse

LOOK: Final = """
const look = (element) => {
    const label = element.labels && element.labels[0];
    return [element, element.parentElement, label].filter(Boolean).map((each) => {
        const style = getComputedStyle(each);
        return ["outlineStyle", "outlineWidth", "outlineColor", "boxShadow", "borderColor", "backgroundColor", "color",
                "textDecorationLine"].map((name) => style[name]).join(" ");
    }).join("|");
};
"""
CONTROLS: Final = (
    "() => {"
    + LOOK
    + """
    document.activeElement.blur();  // what has the focus from the beginning shows it already
    const wanted = "a[href], button, input, select, textarea, summary, [tabindex='0']";
    window.controls = [...document.querySelectorAll(wanted)].filter((each) =>
        !each.disabled && each.type !== "hidden" && each.tabIndex >= 0 && each.getClientRects().length
        && each.checkVisibility({checkVisibilityCSS: true}));
    window.looks = window.controls.map(look);
    return window.controls.map((each) => each.outerHTML.slice(0, 120));
}"""
)
FOCUSED: Final = (
    "() => {"
    + LOOK
    + """
    const index = window.controls.indexOf(document.activeElement);
    return [index, index < 0 || look(document.activeElement) !== window.looks[index]];
}"""
)
"""Returns the index of the focused control, and whether its focus is visible."""
MORE: Final = 10
"""Tab stops that are not controls of the page: the browser's own, and boxes that scroll."""


def walk(page: "Page") -> None:
    """Press Tab until every control of the page was focused, and check that each shows its focus."""
    expect(page.locator("#content")).to_be_visible()
    controls = page.evaluate(CONTROLS)
    assert controls
    reached, unseen = set(), set()
    for _ in range(len(controls) + MORE):
        page.keyboard.press("Tab")
        index, is_seen = page.evaluate(FOCUSED)
        reached.add(index)
        if not is_seen:
            unseen.add(controls[index])
    assert [control for index, control in enumerate(controls) if index not in reached] == []
    assert unseen == set()


LISTS: Final = {
    "index": pages.INDEX,
    "requests": pages.REQUESTS,
    "in flight": pages.IN_FLIGHT,
    "cancelled": pages.CANCELLED,
    "cancellations": pages.CANCELLATIONS,
    "activity": pages.ACTIVITY,
    "tools": pages.TOOLS,
    "sessions": pages.SESSIONS,
    "listen streams": pages.LISTEN_STREAMS,
    "tool": pages.tool("order_parts"),
    "trying": pages.trying("order_parts"),
    "tokens": "/admin/mcp_app/token/",
    "new token": "/admin/mcp_app/token/add/",
}


@pytest.mark.parametrize("name", LISTS)
def test_tab_reaches_every_control_and_shows_where_it_is(name: str, browse: "Browse") -> None:
    page = browse("owner")
    page.goto(LISTS[name])
    walk(page)


def test_tab_reaches_every_control_of_what_runs_and_what_is_connected(
    stack: Stack, tmp_path: Path, browse: "Browse"
) -> None:
    page = browse("owner")
    calling = call(stack, "wait_for_file", path=str(tmp_path / "never"))
    stream = stack.post(
        message("subscriptions/listen", meta={META + "clientInfo": CLIENT}, notifications={"toolsListChanged": True})
    )
    page.goto(pages.LISTEN_STREAMS)
    row = pages.row(page, "list of tools")
    expect(row).to_have_count(1)
    row.get_by_role("link").first.click()
    walk(page)
    page.get_by_role("link", name="Close…").click()
    walk(page)
    page.goto(pages.request(stack.running(calling).id))
    walk(page)
    stream.close()
    calling.close()
