"""The site's page and its own admin. The page loads nothing from other sites."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from mcp_app.models import Tool
from mcpsite.models import Contact

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def page(client: Client, configure: Callable[..., None]) -> Callable[[], str]:
    configure(ALLOW_ANONYMOUS=True)
    return lambda: client.get("/").content.decode()


def test_the_page_lists_what_is_offered_and_how_to_connect(page: Callable[[], str]) -> None:
    Tool.objects.create(name="countdown", location="x", enabled=False)
    text = page()
    for client in (
        "Claude Code",
        "VS Code <code>.vscode/mcp.json</code>",
        "Cursor <code>.cursor/mcp.json</code>",
        "curl",
    ):
        assert f"<dt>{client}</dt>" in text
    assert "<code>claude mcp add --transport http mcpsite http://testserver/mcp</code>" in text
    assert "Import contacts from CSV <code>import_csv</code>" in text
    assert "For staff only. This is NOT a sandbox" in text
    assert "<code>countdown</code>" not in text


def test_browsers_find_the_icon_that_they_ask_for_with_every_page(client: Client) -> None:
    answered = client.get("/favicon.ico")
    assert (answered.status_code, answered["Content-Type"]) == (200, "image/svg+xml")
    assert answered.content.startswith(b"<svg ")


def test_an_administrators_words_stay_text(page: Callable[[], str]) -> None:
    Tool.objects.create(name="roman", location="x", title="<script>x</script>", description="<img src=x>")
    text = page()
    assert "&lt;script&gt;x&lt;/script&gt;" in text
    assert "<script" not in text
    assert "<img" not in text


def test_every_link_of_the_page_leads_somewhere_on_this_site(page: Callable[[], str], admin_client: Client) -> None:
    links = re.findall(r'<a href="([^"]+)"', page())
    assert len(links) == 5
    assert {admin_client.get(link).status_code for link in links} == {200}


def test_the_page_asks_for_its_own_style_sheet_alone(client: Client) -> None:
    response = client.get("/")
    assert response["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self';")
    text = response.content.decode()
    assert re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', text) == ["/static/mcpsite/site.css"]
    assert not re.search(r"<style|<script| style=| on\w+=", text)
    found = finders.find("mcpsite/site.css")
    assert found
    assert "url(" not in Path(found).read_text()


def test_a_site_without_anonymous_calls_lists_its_tools_to_those_who_signed_in(
    client: Client, admin_client: Client, configure: Callable[..., None]
) -> None:
    configure(ALLOW_ANONYMOUS=False)
    assert "import_csv" not in client.get("/").content.decode()
    assert "import_csv" in admin_client.get("/").content.decode()


def test_only_looking_is_possible(client: Client) -> None:
    assert client.post("/").status_code == 405


def test_contacts_are_listed_and_searched_in_the_admin(admin_client: Client) -> None:
    Contact.objects.create(email="ada@example.org", name="Ada", company="Engines")
    Contact.objects.create(email="bob@example.org", name="Bob", company="Acme")
    listed = admin_client.get(reverse("admin:mcpsite_contact_changelist"), {"q": "engines"}).content.decode()
    assert "ada@example.org" in listed
    assert "bob@example.org" not in listed
