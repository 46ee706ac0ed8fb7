"""A user with view permissions finds no cancel button and no payload. A forged request is rejected and audited."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import pages
from tests.browser.callers import start_indexing
from tests.browser.chromium import expect
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Page

    from tests.browser.conftest import Browse

FORBIDDEN = 403


def test_who_may_only_look_sees_no_button_and_no_payload(stack: Stack, steps: Path, browse: "Browse") -> None:
    _, running = start_indexing(stack, steps)
    page = browse("auditor")
    page.goto(pages.request(running.id))
    expect(page.locator("#mcp-progress progress")).to_be_visible()
    expect(pages.cancel_form(page)).to_have_count(0)
    expect(page.locator("#mcp-arguments")).to_have_count(0)
    for secret in (str(steps), "documents to index", "document 1"):
        expect(page.locator("body")).not_to_contain_text(secret)
    page.goto(pages.IN_FLIGHT)
    expect(pages.row(page, "index_documents")).to_have_count(1)
    expect(page.get_by_label("Action:")).to_have_count(0)
    expect(page.locator("body")).not_to_contain_text("document 1")


FORGED = {
    "its page": lambda request_id: (f"{pages.REQUESTS}{request_id}/cancel/", {}),
    "the action's page": lambda request_id: (f"{pages.IN_FLIGHT}cancel/", {"request_ids": request_id}),
    "the action": lambda request_id: (pages.IN_FLIGHT, {"action": "cancel_selected", "_selected_action": request_id}),
}


@pytest.mark.fault("G8")
@pytest.mark.parametrize("door", FORGED)
def test_a_forged_cancellation_is_refused_and_audited(door: str, stack: Stack, steps: Path, browse: "Browse") -> None:
    calling, running = start_indexing(stack, steps)
    page = browse("auditor")
    path, fields = FORGED[door](running.id)
    assert forge(page, path, **fields, reason="mine").status == FORBIDDEN
    row = stack.running(calling)
    assert row.cancel_cause == ""
    [attempt] = row.attempts
    assert (attempt.outcome, attempt.actor, attempt.cause) == ("denied", "auditor", "admin")


@pytest.mark.fault("G8")
def test_a_cancellation_from_another_site_is_refused(stack: Stack, steps: Path, browse: "Browse") -> None:
    calling, running = start_indexing(stack, steps)
    page = browse("operator")
    response = page.request.post(f"{pages.REQUESTS}{running.id}/cancel/", form={"reason": "theirs"})
    assert response.status == FORBIDDEN
    row = stack.running(calling)
    assert (row.cancel_cause, row.attempts) == ("", [])


def forge(page: "Page", path: str, **fields: str) -> "APIResponse":
    """Post as the page's user, with the CSRF token that each of their pages contains."""
    page.goto(pages.INDEX)
    token = page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    return page.request.post(path, form={"csrfmiddlewaretoken": token, **fields})
