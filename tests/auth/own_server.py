"""A site that is its own authorization server, served over HTTP by a thread; a user's browser."""

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

USER, PASSWORD = "ada", "correct horse battery staple"
BACK = "http://127.0.0.1:49152/back"
"""Where the client waits for its user."""
TOOLKIT = "mcp_app.auth.oauth.toolkit.bearer"
PATIENCE = 10.0


def toolkit(origin: str) -> dict[str, Any]:
    """`OAUTH2_PROVIDER` of docs/access.md, for a site at this origin."""
    gates = (
        "ACCESS_TOKEN_TRANSPORT",
        "AUTHZ_RESPONSE_ISS",
        "IMPLICIT_GRANT",
        "PASSWORD_GRANT",
        "PKCE_METHOD",
        "TOKEN_STORAGE",
    )
    return {
        "OIDC_ISS_ENDPOINT": origin,
        "SCOPES": {"mcp": "Use the tools of this site", "files:write": "Change your files"},
        "DEFAULT_SCOPES": ["mcp"],
        "CIMD_ENABLED": True,
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "ACCESS_TOKEN_EXPIRE_SECONDS": 900,
        "REFRESH_TOKEN_EXPIRE_SECONDS": 14 * 86_400,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["none", "client_secret_post", "client_secret_basic"],
        **{f"COMPLIANT_BCP_RFC9700_{gate}": True for gate in gates},
    }


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@contextmanager
def serving(application: Any, listener: socket.socket) -> Iterator[None]:
    """A server process in all but the process: an event loop of its own in a thread."""
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
    """A user who logs in where they are asked to, and agrees, or does not."""

    def __init__(self) -> None:
        self.agrees = True
        self._client = httpx2.AsyncClient()
        self.pages: list[str] = []
        """What was shown before each click."""
        self._landed: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def visit(self, url: str) -> None:
        """From the client's address until the site sends the user back."""
        response = await self._client.get(url)
        while not (response.is_redirect and response.headers["location"].startswith(BACK)):
            response = await self._follow(response)
        query = parse_qs(urlsplit(response.headers["location"]).query)
        self._landed = {name: values[0] for name, values in query.items()}

    async def landed(self) -> AuthorizationCodeResult:
        found = self._landed
        return AuthorizationCodeResult(code=found.get("code", ""), state=found["state"], iss=found.get("iss"))

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
    """The hidden fields of a page's form."""
    fields = re.findall(r'<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?', page)
    return {name: html.unescape(value) for name, value in fields}
