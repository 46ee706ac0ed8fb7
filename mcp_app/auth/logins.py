"""The site's own login: `cookie` is an authenticator that takes Django's session cookie, for programs in its pages.

A browser sends that cookie along whoever made it ask, so a request that rests on it has to pass what Django asks of a
form: its token against forgery, and an Origin or Referer of the site. All of that is Django's own code. Refuses to
write: it prolongs no session, ends none, and gives none another key, which no answer of this endpoint could tell.
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

from mcp_app.auth.authentication import UnacceptableRequestError
from mcp_app.auth.connection import HTTPConnection

logger = logging.getLogger(__name__)

_PORTS: Final = {"http": 80, "https": 443}


def cookie(connection: HTTPConnection) -> AbstractBaseUser | None:
    """Who has logged in with the session that a request's cookie names; None where nobody has, or not any more.

    Raises UnacceptableRequestError where somebody has, and another site may have made their browser ask.
    """
    request = _request(connection)
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not key or not key.isprintable():  # Django unquotes cookies, and databases refuse U+0000
        return None
    session: Any = _Kept(import_module(settings.SESSION_ENGINE).SessionStore(key).load())
    request.session = session
    user = get_user(request)
    if not isinstance(user, AbstractBaseUser):
        return None
    _check_forgery(request)
    return user


class _Kept(dict[str, Any]):
    """What a session holds, to be read: Django gives one another key when it changes the key that it is signed by."""

    def cycle_key(self) -> None: ...

    def flush(self) -> None: ...


class _ForgeryCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        # Without what it says of the request's own fields.
        raise UnacceptableRequestError(reason.partition(" - ")[0].removesuffix("."))


def _check_forgery(request: HttpRequest) -> None:
    """Raises UnacceptableRequestError."""
    check = _ForgeryCheck(_nothing)
    try:
        check.process_request(request)
        check.process_view(request, _nothing, (), {})
    except UnacceptableRequestError as error:
        logger.info("a request with a session was refused: %s", error)
        header = HttpHeaders.parse_header_name(settings.CSRF_HEADER_NAME)
        what = "A request with the site's session has to come from its pages, with Django's CSRF token in"
        raise UnacceptableRequestError(f"{what} {header}: {error}.") from None


def _nothing(request: HttpRequest) -> HttpResponse:
    """Stands for the view that is protected."""
    return HttpResponse()


def _request(connection: HTTPConnection) -> ASGIRequest:
    """The same as Django sees it; its body is nobody's."""
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
