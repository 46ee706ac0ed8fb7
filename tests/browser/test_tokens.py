"""A token is made, shown once and revoked in the admin, under a policy that allows only scripts from files."""

from typing import TYPE_CHECKING

import pytest

from tests.browser import pages
from tests.browser.chromium import expect
from tests.browser.test_looks import OVERFLOW, READABLE, SCREENS, UNREADABLE

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse


def assert_good_looks(page: "Page") -> None:
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate(UNREADABLE, READABLE) == []


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_token_is_made_shown_once_and_revoked(screen: str, scheme: str, browse: "Browse") -> None:
    page = browse("keeper", viewport=SCREENS[screen], color_scheme=scheme)
    page.goto(f"{pages.TOKENS}add/")
    assert_good_looks(page)
    page.get_by_label("Name").fill(f"{screen} {scheme}")
    page.get_by_label("Days").fill("7")
    page.get_by_role("button", name="Save", exact=True).click()
    shown = page.get_by_label("The token").inner_text()
    assert shown.startswith("mcp_")
    assert_good_looks(page)

    page.get_by_role("link", name="All tokens").click()
    assert shown not in page.content()
    assert_good_looks(page)
    page.get_by_role("row", name=f"{screen} {scheme}").get_by_role("link").click()
    assert shown not in page.content()
    assert_good_looks(page)
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked: 1.")).to_be_visible()
    expect(page.get_by_role("button", name="Revoke")).to_have_count(0)
    assert_good_looks(page)
