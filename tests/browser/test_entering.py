"""The first page of the admin, for a user with few permissions."""

from typing import TYPE_CHECKING

from tests.browser.chromium import expect

if TYPE_CHECKING:
    from tests.browser.conftest import Browse


def test_an_auditor_finds_the_lists_on_the_first_page(browse: "Browse") -> None:
    page = browse("auditor")
    page.goto("/admin/")
    for name in ("Requests", "Cancellations"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Tools", exact=True)).to_have_count(0)
