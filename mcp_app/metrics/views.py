"""The page that Prometheus scrapes: for users who may see the site's statistics, by session or by a token of theirs."""

from http import HTTPStatus
from typing import Final

from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from mcp_app.auth import scopes, tokens
from mcp_app.auth.access import Access
from mcp_app.auth.authentication import InvalidCredentialsError
from mcp_app.auth.connection import HeaderFields, HTTPConnection
from mcp_app.metrics.collector import MCPCollector

PERMISSION: Final = "mcp_app.view_tally"
SCOPE: Final = "metrics"
"""Which a token has to have that is limited by scopes."""
_ACCESS: Final = Access(permissions=(PERMISSION,))
_registry = CollectorRegistry()
_registry.register(MCPCollector())


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics, in the format that the scraper prefers; 401 without a login or a good token, 403 for who may not."""
    login = getattr(request, "user", None)
    user = login if login is not None and login.is_authenticated else _bearer(request)
    if user is None:
        return _refused("Show a bearer token of a user who may see tallies, or log in.", HTTPStatus.UNAUTHORIZED)
    if not _ACCESS.admits(user):
        return _refused(f"This takes the permission {PERMISSION}.", HTTPStatus.FORBIDDEN)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(_registry), content_type=content_type)


def _bearer(request: HttpRequest) -> AbstractBaseUser | None:
    """Whose token was shown, if it is one of ours, and good for this."""
    field = request.headers.get("Authorization", "")
    headers = HeaderFields([(b"authorization", field.encode("latin-1", "replace"))] if field else [])
    try:
        principal = tokens.bearer(HTTPConnection(headers, request.META.get("REMOTE_ADDR", ""), request.path))
    except InvalidCredentialsError:
        return None
    if principal is None or scopes.missing([SCOPE], principal.scopes):
        return None
    user: AbstractBaseUser | None = get_user_model()._default_manager.filter(pk=principal.user_id).first()
    return user


def _refused(told: str, status: int) -> HttpResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return HttpResponse(f"{told}\n", status=status, content_type="text/plain", headers=headers)
