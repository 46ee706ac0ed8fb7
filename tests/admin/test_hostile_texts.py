"""Every page of the admin shows texts from outside without characters that hide, reverse or control text.

The pages are found by following links, and by sending forms.
"""

import html
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urljoin, urlsplit
from uuid import UUID

import pytest
from django.test import Client

from mcp_app.models import Cancellation, ListenStream, Request, Session, Token
from mcp_app.safe_text import safe_text
from mcpsite.models import Contact
from tests.hostile_site import HIDDEN, HOSTILE, hostile_site

pytestmark = pytest.mark.django_db(databases="__all__")

APPS: Final = ("/admin/mcp_app/", "/admin/mcpsite/")


@pytest.fixture
def hostile(worker: UUID) -> Iterator[None]:
    with hostile_site(worker):
        yield


class Browser:
    """Follows every link of this app's pages, including buttons that lead to a confirmation."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.seen: set[str] = set()
        self.found: list[str] = []

    def walk(self, url: str) -> None:
        waiting = [url]
        while waiting:
            url = waiting.pop()
            if (key := _kind(url)) not in self.seen:
                self.seen.add(key)
                waiting += self.look(url, self._client.get(url, follow=True))

    def post(self, url: str, **data: Any) -> None:
        response = self._client.post(url, data, follow=True)
        assert response.status_code == 200
        self.look(url, response)

    def look(self, url: str, response: Any) -> list[str]:
        """Record the hostile texts of a page, and return its links."""
        assert response.status_code == 200, url
        content = b"".join(response.streaming_content) if response.streaming else response.content
        text = content.decode().removeprefix("\ufeff")
        for shown in re.findall(f".{{,60}}{re.escape(HOSTILE[0])}[{HIDDEN}].{{,20}}", _without_fields(text)):
            self.found.append(f"{_kind(url)}: {safe_text(shown)}")
        links = [urljoin(url, html.unescape(link)) for link in re.findall(r'(?:href|data-url)="([^"]*)"', text)]
        return [link for link in links if link.startswith(APPS) and urlsplit(link).query.count("&") < 1]


def _kind(url: str) -> str:
    """Return a key that is equal for pages of one kind: one for each row, and one for each filter of a list."""
    parts = urlsplit(url)
    return parts.path + "?" + "&".join(sorted(each.partition("=")[0] for each in parts.query.split("&")))


def _without_fields(text: str) -> str:
    """Remove the values of form fields, because those must be the unchanged texts."""
    return re.sub(r"<input[^>]*>|<textarea[^>]*>.*?</textarea>", "", text, flags=re.DOTALL)


def test_no_page_shows_a_text_that_hides_or_reverses_what_is_read(hostile: None, admin_client: Client) -> None:
    browser = Browser(admin_client)
    browser.walk("/admin/mcp_app/")
    browser.walk("/admin/mcpsite/")
    pages = " ".join(browser.seen)
    for part in ("request/", "inflightrequest/live/", "cancelledrequest/", "cancellation/export/", "session/", "/try/",
                 "listenstream/", "token/", "tool/", "tally/statistics/", "contact/", "/history/", "/cancel-all/",
                 "/state/", "/now/", "/close/"):  # fmt: skip
        assert part in pages, part
    assert "\n".join(dict.fromkeys(browser.found)) == ""


def test_no_answer_to_a_form_shows_such_a_text(hostile: None, admin_client: Client) -> None:
    browser = Browser(admin_client)
    site = "/admin/mcp_app"
    ids = [str(pk) for pk in Request.objects.values_list("pk", flat=True)]
    for name in ("request", "inflightrequest", "cancelledrequest"):
        browser.post(f"{site}/{name}/", action="cancel_selected", _selected_action=ids)
    for pk in ids:
        for action in ("caller", "tool", "session"):
            browser.post(f"{site}/inflightrequest/", action=f"cancel_all_of_{action}", _selected_action=[pk])
    for name, model in (("session", Session), ("listenstream", ListenStream)):
        chosen = [str(pk) for pk in model.objects.values_list("pk", flat=True)]
        browser.post(f"{site}/{name}/", action="close_selected", _selected_action=chosen)
        browser.post(f"{site}/{name}/close/", request_ids=",".join(chosen), reason=HOSTILE)
    for action in ("disable", "enable"):
        browser.post(f"{site}/tool/", action=action, _selected_action=[HOSTILE, "odd"])
    browser.post(f"{site}/tool/", action="delete_selected", _selected_action=[HOSTILE])
    browser.post(f"{site}/tool/", action="delete_selected", _selected_action=[HOSTILE], post="yes")
    browser.post(f"{site}/token/add/", name=HOSTILE, username="eve", scopes="a", days="1")
    assert Token.objects.count() == 3
    newest = Token.objects.latest("created_at")
    browser.post(f"{site}/token/{newest.pk}/revoke/")
    browser.post(f"{site}/cancellation/", action="export_selected", _selected_action=[Cancellation.objects.first().pk])
    browser.post(f"{site}/tool/odd/try/", text=HOSTILE)
    contact = Contact.objects.get()
    browser.post(f"/admin/mcpsite/contact/{contact.pk}/change/", name=HOSTILE, email="a@b.example", company=HOSTILE)
    browser.post("/admin/mcpsite/contact/", action="delete_selected", _selected_action=[contact.pk])
    browser.post(f"{site}/request/cancel/", request_ids=",".join(ids), reason=HOSTILE)
    # The first page and each row's history list these actions.
    browser.look("/admin/", admin_client.get("/admin/"))
    browser.walk(f"{site}/session/")
    assert "\n".join(dict.fromkeys(browser.found)) == ""
