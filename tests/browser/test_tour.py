"""The tour of docs/how-to/admin.md covers every admin page of this app. Makes the pictures that no other test makes.

MCP_PICTURES=docs/images python -m pytest -m browser tests/browser/test_tour.py
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.browser import pages
from tests.browser.chromium import expect

if TYPE_CHECKING:
    from tests.browser.conftest import Browse, Picture

TOUR: Final = Path(__file__).parents[2] / "docs" / "how-to/admin.md"


def test_every_page_of_the_admin_is_on_the_tour(browse: "Browse", picture: "Picture") -> None:
    page = browse("guide")
    page.set_viewport_size({"width": 1280, "height": 520})
    page.goto(pages.INDEX)
    ours = page.get_by_role("main").locator(".app-mcp_app tbody th")
    expect(ours.first).to_be_visible()
    headings = re.findall(r"^## (?!If )(.+)$", TOUR.read_text(), re.MULTILINE)
    assert set(ours.all_inner_texts()) == set(headings)
    picture("index", page)


def test_the_tools_are_listed(browse: "Browse", picture: "Picture") -> None:
    page = browse("guide")
    pages.without_sidebar(page, pages.TOOLS)
    for told in ("cooperative only", "600 s", "mcpsite.tools.import_csv"):
        expect(pages.row(page, "import_csv")).to_contain_text(told)
    picture("tools", page)


def test_a_token_is_shown_once(browse: "Browse", picture: "Picture") -> None:
    page = browse("guide")
    page.set_viewport_size({"width": 1280, "height": 420})
    pages.without_sidebar(page, f"{pages.TOKENS}add/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_label("The token")).to_contain_text("mcp_")
    picture("token", page)
