"""The page that Prometheus scrapes, for users with the permission to see statistics.

They authenticate with a session or with a bearer token of this app.
"""

from http import HTTPStatus
from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from mcp_app.auth import tokens
from mcp_app.auth.authentication import HeaderFields, HTTPConnection, InvalidCredentialsError
from mcp_app.auth.principal import Access, missing_scopes, user_of
from mcp_app.metrics.collector import MCPCollector

PERMISSION: Final = "mcp_app.view_tally"
SCOPE: Final = "metrics"
"""The scope that a token must have if it is limited by scopes."""
_ACCESS: Final = Access(permissions=(PERMISSION,))
_registry = CollectorRegistry()
_registry.register(MCPCollector())


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics in the format that the scraper prefers.

    Return 401 without a login or a valid token, and 403 without the permission
    `mcp_app.view_tally`. A token that is limited by scopes is valid if it has the scope `metrics`.
    """
    login = getattr(request, "user", None)
    user = login if login is not None and login.is_authenticated else _bearer(request)
    if user is None:
        return _refused(
            "Send the bearer token of a user with the permission mcp_app.view_tally, or log in as one.",
            HTTPStatus.UNAUTHORIZED,
        )
    if not _ACCESS.admits(user):
        return _refused(f"This needs the permission {PERMISSION}.", HTTPStatus.FORBIDDEN)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(_registry), content_type=content_type)


def _bearer(request: HttpRequest) -> AbstractBaseUser | None:
    """Return the user of the request's bearer token, if it is valid and has the scope."""
    field = request.headers.get("Authorization", "")
    headers = HeaderFields([(b"authorization", field.encode("latin-1", "replace"))] if field else [])
    try:
        principal = tokens.bearer(HTTPConnection(headers, request.META.get("REMOTE_ADDR", ""), request.path))
    except InvalidCredentialsError:
        return None
    if principal is None or missing_scopes([SCOPE], principal.scopes):
        return None
    return user_of(principal.user_id)


def _refused(message: str, status: int) -> HttpResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return HttpResponse(f"{message}\n", status=status, content_type="text/plain", headers=headers)
