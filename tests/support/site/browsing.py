"""A minimal browser for the pages of a site. It keeps cookies and posts forms, and it follows no redirects."""

from http.client import HTTPResponse
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, build_opener

from tests.support.waiting import PATIENCE


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


class Browser:
    """One user's browser at one server of the site."""

    def __init__(self, port: int) -> None:
        self._origin = f"http://127.0.0.1:{port}"
        self._cookies = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self._cookies), _Stay())

    @classmethod
    def of(cls, port: int, username: str, password: str, admin: str = "/admin/") -> "Browser":
        """Return the browser of a user who has logged in at the admin with this path."""
        browser = cls(port)
        assert browser.get(f"{admin}login/")[0] == 200
        assert browser.post(f"{admin}login/", username=username, password=password)[0] == 302
        return browser

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the page."""
        return self._open(path)

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        token = next((cookie.value for cookie in self._cookies if cookie.name == "csrftoken"), None)
        return self._open(path, {"csrfmiddlewaretoken": token or "", **fields})

    def _open(self, path: str, fields: dict[str, str] | None = None) -> tuple[int, str]:
        data = None if fields is None else urlencode(fields).encode()
        response: HTTPResponse | HTTPError
        try:
            response = self._opener.open(self._origin + path, data, PATIENCE)
        except HTTPError as error:
            response = error
        with response:
            return response.status or 0, response.read().decode()
