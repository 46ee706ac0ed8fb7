"""A site that is its own authorization server, as in docs/how-to/access.md, over HTTP; and a user's
browser.
"""

import html
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import uvicorn
from mcp.client.auth import AuthorizationCodeResult

from tests.docs.pages import snippet

USER, PASSWORD = "ada", "correct horse battery staple"
BACK = "http://127.0.0.1:49152/back"
"""The address at which the client waits for its user."""
PATIENCE = 30.0


def page_headers(origin: str) -> dict[str, Any]:
    """The settings of docs/how-to/access.md, copied literally except for the site's address."""
    values: dict[str, Any] = {"INSTALLED_APPS": [], "MCP": {}}
    settings = snippet("how-to/access.md#the-site-as-its-own-authorization-server").text
    exec(settings.replace("https://example.com", origin), values)
    return values


@contextmanager
def listening_socket() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@contextmanager
def serving(application: Any, listener: socket.socket) -> Iterator[None]:
    """Run an event loop with a server in a thread."""
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, ws="none", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Browser:
    """A user who logs in when asked and gives consent, or does not."""

    def __init__(self) -> None:
        self.agrees = True
        self._client = httpx2.AsyncClient(timeout=PATIENCE)
        self.pages: list[str] = []
        """The page that was shown before each click."""
        self._landed: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def visit(self, url: str) -> None:
        """Follow the client's address until the site sends the user back."""
        response = await self._client.get(url)
        while not (response.is_redirect and response.headers["location"].startswith(BACK)):
            response = await self._follow(response)
        query = parse_qs(urlsplit(response.headers["location"]).query)
        self._landed = {name: values[0] for name, values in query.items()}

    async def landed(self) -> AuthorizationCodeResult:
        found = self._landed
        return AuthorizationCodeResult(code=found.get("code", ""), state=found["state"], iss=found.get("iss"))

    async def confirm(self, url: str) -> None:
        """Send the form of a page of the site unchanged."""
        sent = await self._client.post(url, data=_hidden((await self._client.get(url)).text), headers={"referer": url})
        assert sent.status_code == 302, sent.text

    async def _follow(self, response: httpx2.Response) -> httpx2.Response:
        url = str(response.url)
        if response.is_redirect:
            return await self._client.get(urljoin(url, response.headers["location"]))
        assert response.status_code == 200, response.text
        self.pages.append(response.text)
        form = _hidden(response.text)
        if 'name="password"' in response.text:
            form |= {"username": USER, "password": PASSWORD}
        elif self.agrees:
            form["allow"] = "Authorize"
        return await self._client.post(url, data=form, headers={"referer": url})


def _hidden(page: str) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    fields = re.findall(r'<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?', page)
    return {name: html.unescape(value) for name, value in fields}
