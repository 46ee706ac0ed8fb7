"""The official client's whole login at a site that is its own authorization server, over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.db import connections
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from oauth2_provider.models import AccessToken, Application

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.models import Request
from mcp_app.routing import mcp_application
from tests.auth.client_storage import Storage
from tests.auth.own_server import BACK, PASSWORD, PATIENCE, USER, Browser, listening_socket, page_headers, serving
from tests.support.worker import Worker, in_thread

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.fault("G3"),
]

CLIENT_URL = "https://editor.example.org/client.json"


class Documents:
    """The network between the site and the client's own site, which serves `CLIENT_URL`."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        return {"client_id": client_id, "client_name": "Editor", "redirect_uris": [BACK]}, 300


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker.at_work() as worker:
        yield worker


@pytest.fixture
def site(settings: Any, configure: Any, monkeypatch: Any) -> Iterator[str]:
    """Return the address of its endpoint."""
    for connection in connections.all(initialized_only=False):
        monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    with isolated_registries(), listening_socket() as listener:

        @tool
        def read() -> str:
            """Read a file."""
            return ""

        @tool(scopes=["files:write"])
        def write() -> str:
            """Change a file."""
            return ""

        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        settings.ROOT_URLCONF = "tests.auth.own_server_urls"
        settings.LOGIN_URL = "/admin/login/"
        settings.ALLOWED_HOSTS = ["127.0.0.1"]
        values = page_headers(origin)
        settings.OAUTH2_PROVIDER = {**values["OAUTH2_PROVIDER"], "CIMD_METADATA_FETCHER": f"{__name__}.Documents"}
        configure(**values["MCP"], PUBLISH_TIMEOUT=PATIENCE)
        User.objects.create_superuser(USER, password=PASSWORD)
        with serving(mcp_application(get_asgi_application()), listener):
            yield f"{origin}/mcp"


Scenario = Callable[[Client], Awaitable[None]]


class Editor:
    """A program with an MCP client, and its user."""

    def __init__(self, site: str, **options: Any) -> None:
        self.storage, self.browser = Storage(), Browser()
        metadata = OAuthClientMetadata.model_validate({"redirect_uris": [BACK], "client_name": "Editor"})
        browser = self.browser
        self.login = OAuthClientProvider(site, metadata, self.storage, browser.visit, browser.landed, **options)
        self._site = site

    def play(self, scenario: Scenario) -> None:
        async def connected() -> None:
            async with (
                self.browser,
                httpx2.AsyncClient(auth=self.login, timeout=PATIENCE) as http,
                Client(streamable_http_client(self._site, http_client=http)) as client,
            ):
                await scenario(client)

        asyncio.run(connected())


async def called(client: Client, name: str, worker: Worker) -> str:
    """Return the text of a tool's result. The test plays the worker."""
    call = asyncio.create_task(client.call_tool(name, {}))
    working = asyncio.create_task(worker.claim())
    await asyncio.wait([call, working], return_when=asyncio.FIRST_COMPLETED)
    if call.done():
        working.cancel()
    else:
        await worker.finish(await working)
    [content] = (await call).content
    return str(content.text)


@pytest.mark.parametrize("registers", ["by its document", "dynamically"])
def test_the_official_client_logs_in_at_the_site_itself_and_steps_up_for_a_scope(
    site: str, settings: Any, worker: Worker, registers: str
) -> None:
    if registers == "dynamically":
        open_to_all = {"DCR_REGISTRATION_PERMISSION_CLASSES": ("oauth2_provider.dcr.AllowAllDCRPermission",)}
        settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "DCR_ENABLED": True, **open_to_all}
        editor = Editor(site)
    else:
        editor = Editor(site, client_metadata_url=CLIENT_URL)

    async def scenario(client: Client) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"read", "write"}
        assert await called(client, "read", worker) == "done"
        login, consent = editor.browser.pages
        assert 'name="password"' in login
        assert "Use the tools of this site" in consent
        assert "<strong>127.0.0.1:49152</strong>" in consent
        assert "on your own computer" in consent
        assert f"<dd>{site}</dd>" in consent
        assert "Change your files" not in consent
        assert editor.storage.tokens.scope == "mcp"
        before = editor.storage.tokens.access_token

        assert await called(client, "write", worker) == "done"
        assert "Change your files" in editor.browser.pages[-1]
        assert set(editor.storage.tokens.scope.split()) == {"mcp", "files:write"}
        assert editor.storage.tokens.access_token != before

    editor.play(scenario)
    ada, token = User.objects.get(), AccessToken.objects.latest("pk")
    [application] = Application.objects.all()
    assert (token.user, token.application, token.resource) == (ada, application, [site])
    assert not token.token
    assert (application.client_id == CLIENT_URL) == (registers == "by its document")
    callers = {(row.issuer, row.subject, row.client_id, row.user_id) for row in Request.objects.all()}
    assert callers == {(site.removesuffix("/mcp"), str(ada.pk), application.client_id, str(ada.pk))}


def test_an_expired_token_is_renewed_without_its_user_and_one_that_they_revoke_opens_nothing_more(
    site: str, worker: Worker
) -> None:
    editor = Editor(site, client_metadata_url=CLIENT_URL)

    async def scenario(client: Client) -> None:
        assert await called(client, "read", worker) == "done"
        first, seen = editor.storage.tokens, len(editor.browser.pages)
        editor.login.context.token_expiry_time = 1.0
        assert await called(client, "read", worker) == "done"
        renewed = editor.storage.tokens
        assert (first.access_token, first.refresh_token) != (renewed.access_token, renewed.refresh_token)
        assert len(editor.browser.pages) == seen

        token = await in_thread(AccessToken.objects.get)
        await editor.browser.confirm(f"{site.removesuffix('mcp')}oauth/authorized_tokens/{token.pk}/delete/")
        assert await called(client, "read", worker) == "done"
        assert len(editor.browser.pages) == seen + 1

    editor.play(scenario)


def test_a_client_whose_user_does_not_agree_gets_nothing(site: str) -> None:
    editor = Editor(site, client_metadata_url=CLIENT_URL)
    editor.browser.agrees = False
    with pytest.raises(ExceptionGroup) as failure:
        editor.play(lambda client: client.list_tools())
    assert failure.group_contains(OAuthFlowError)
    assert len(editor.browser.pages) == 2
    assert not AccessToken.objects.exists()
