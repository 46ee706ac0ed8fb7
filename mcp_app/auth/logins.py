"""Authenticate scripts in the site's own pages by Django's session cookie.

A browser sends that cookie with any request, even one that another site caused. So the request must
pass the checks that Django makes of a form: the CSRF token, and an Origin or Referer of the site.
Django's own code does both. Nothing is written: a session is not prolonged, ended or given a new
key, because no response of this endpoint could carry the new cookie.
"""

import logging
from importlib import import_module
from io import BytesIO
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.request import HttpHeaders
from django.middleware.csrf import CsrfViewMiddleware

from mcp_app.auth.authentication import HTTPConnection, UnacceptableRequestError

logger = logging.getLogger(__name__)

_PORTS: Final = {"http": 80, "https": 443}


def cookie(connection: HTTPConnection) -> AbstractBaseUser | None:
    """Return the user who is logged in with the session cookie, or `None`.

    Raises `UnacceptableRequestError` if the user is logged in but another site may have caused the
    request.
    """
    request = _django_request(connection)
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not key or not key.isprintable():  # Django unquotes cookies, and databases refuse U+0000
        return None
    session: Any = _ReadOnlySession(import_module(settings.SESSION_ENGINE).SessionStore(key).load())
    request.session = session
    user = get_user(request)
    if not isinstance(user, AbstractBaseUser):
        return None
    _check_forgery(request)
    return user


class _ReadOnlySession(dict[str, Any]):
    """The content of a session.

    Django renews a session's key when it changes the secret that signs it; here that does nothing.
    """

    def cycle_key(self) -> None: ...

    def flush(self) -> None: ...


class _ForgeryCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        # The part after " - " repeats fields of the request.
        raise UnacceptableRequestError(reason.partition(" - ")[0].removesuffix("."))


def _check_forgery(request: HttpRequest) -> None:
    """Raises `UnacceptableRequestError`."""
    check = _ForgeryCheck(_protected_view)
    try:
        check.process_request(request)
        check.process_view(request, _protected_view, (), {})
    except UnacceptableRequestError as error:
        logger.info("a request with a session was refused: %s", error)
        header = HttpHeaders.parse_header_name(settings.CSRF_HEADER_NAME)
        what = "A request that uses the site's session must come from the site's pages, with Django's CSRF token in"
        raise UnacceptableRequestError(f"{what} {header}: {error}.") from None


def _protected_view(request: HttpRequest) -> HttpResponse:
    """Stand in for the view that the middleware protects."""
    return HttpResponse()


def _django_request(connection: HTTPConnection) -> ASGIRequest:
    """Return the request as Django sees it, without its body."""
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in connection.headers.items()]
    scope = {
        "type": "http",
        "method": connection.method,
        "scheme": connection.scheme,
        "path": connection.path,
        "query_string": b"",
        "headers": fields,
        "server": ("", _PORTS.get(connection.scheme, 80)),
    }
    return ASGIRequest(scope, BytesIO())
