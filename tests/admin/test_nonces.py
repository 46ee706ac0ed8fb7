"""Under a policy that allows only elements with the page's nonce, every admin page has its scripts and styles."""

import copy
import re
from collections.abc import Iterator

import django
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings

from mcp_app.catalogue import tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.execution.tool.context import ToolContext
from mcp_app.models import Tool
from mcp_app.states import ProcessRole
from tests.support import rows

pytestmark = [
    pytest.mark.usefixtures("_tools"),
    pytest.mark.django_db(databases="__all__"),
    pytest.mark.skipif(django.VERSION < (6, 1), reason="Django's own admin sets nonces since 6.1"),
]

LISTS = ("tool", "inflightrequest", "request", "cancellation", "tally", "session", "listenstream", "token")


@pytest.fixture
def _tools() -> Iterator[None]:
    with isolated_registries():
        tool(search)
        tool_rows.sync()
        yield


def search(pattern: str, ctx: ToolContext, limit: int = 10) -> str:
    """Search for a pattern."""
    return pattern


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def policy() -> Iterator[None]:
    templates = copy.deepcopy(settings.TEMPLATES)
    templates[0]["OPTIONS"]["context_processors"].append("django.template.context_processors.csp")
    nonce = ["<CSP_NONCE_SENTINEL>"]
    with override_settings(
        TEMPLATES=templates,
        MIDDLEWARE=["django.middleware.csp.ContentSecurityPolicyMiddleware", *settings.MIDDLEWARE],
        SECURE_CSP={"script-src": nonce, "style-src": nonce},
    ):
        yield


def pages() -> list[str]:
    offered = Tool.objects.get(name="search")
    call = rows.running(rows.alive(ProcessRole.WORKER))
    return [
        *(f"/admin/mcp_app/{name}/" for name in LISTS),
        f"/admin/mcp_app/tool/{offered.pk}/change/",
        f"/admin/mcp_app/tool/{offered.pk}/try/",
        f"/admin/mcp_app/request/{call.pk}/change/",
        "/admin/mcp_app/token/add/",
    ]


def lacking(page: str, header: str) -> list[str]:
    """Return the tags of a page that its policy would block."""
    [nonce] = set(re.findall(r"'nonce-([^']+)'", header))
    tags = re.findall(r"<script[^>]*\bsrc=[^>]*>|<link[^>]*\brel=\"stylesheet\"[^>]*>|<style[^>]*>", page)
    assert tags
    return [tag for tag in tags if f'nonce="{nonce}"' not in tag]


@pytest.mark.usefixtures("policy")
def test_whatever_a_page_loads_carries_its_nonce(root: Client) -> None:
    found = {}
    for address in pages():
        response = root.get(address)
        assert response.status_code == 200, address
        found[address] = lacking(response.content.decode(), response["Content-Security-Policy"])
    assert {address: tags for address, tags in found.items() if tags} == {}


@pytest.mark.usefixtures("policy")
def test_so_does_the_page_that_shows_a_token_once(root: Client) -> None:
    made = root.post("/admin/mcp_app/token/add/", {"name": "her laptop", "scopes": "", "days": ""}, follow=True)

    assert lacking(made.content.decode(), made["Content-Security-Policy"]) == []
