"""Access tokens of the site's own authorization server, django-oauth-toolkit: `bearer` looks each up in its table.

So a token that was revoked, or whose user may not log in any more, opens nothing from then on. Refuses what the toolkit
alone would take: a token for no resource in particular, and one that no user of the site has agreed to, which anybody
can have where clients register themselves. Source: 2026-07-28 basic/authorization, RFC 8707.
"""

from collections.abc import Collection
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from mcp_app.auth import scopes
from mcp_app.auth.authentication import InsufficientScopeError
from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.credentials import bearer_token
from mcp_app.auth.oauth import claims
from mcp_app.auth.oauth.claims import refused
from mcp_app.auth.oauth.resource import protected_resource, required_resource
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings

try:
    from oauth2_provider.models import (
        get_access_token_model,
        get_refresh_token_model,
        refresh_token_expire_timedelta,
    )
    from oauth2_provider.settings import oauth2_settings
    from oauthlib.common import Request
except ImportError as error:
    what = "the site as its own authorization server takes django-oauth-toolkit"
    raise ImportError(f"{what}: pip install 'django-mcp-app[oauth-server]'") from error


def bearer(connection: HTTPConnection) -> Principal | None:
    """Who gave the client the token in a request's `Authorization: Bearer …`; None without one.

    Raises InvalidCredentialsError, InsufficientScopeError, ImproperlyConfigured.
    """
    shown = bearer_token(connection)
    if shown is None:
        return None
    resource = required_resource(connection.endpoint)
    if len(resource.issuers) != 1:
        raise ImproperlyConfigured(
            'A site that is its own authorization server is the only one in MCP["OAUTH_ISSUERS"].'
        )
    token = _in_force(shown, resource.uri)
    if token.application is None:
        raise refused("no client of this site was given it")
    user: AbstractBaseUser | None = token.user
    if user is None:
        raise refused("no user of this site has agreed to it")
    said = {
        "aud": token.resource,
        "sub": str(user.pk),
        "client_id": token.application.client_id,
        "scope": " ".join(token.scopes),
    }
    return claims.principal(said, resource.issuers[0], connection.endpoint, user)


def is_bearer(principal: Principal) -> bool:
    """Whether it was `bearer` that let this principal in: a user of this site, by a token that the site issued."""
    own: str = oauth2_settings.OIDC_ISS_ENDPOINT
    return bool(own) and principal.issuer == own and principal.user_id == principal.subject


def given(principal: Principal) -> frozenset[str]:
    """What the user of a principal that `is_bearer` lets its client do now at its endpoint.

    Clients renew their tokens all the time, so no certain one is asked for: each that is in force counts, and each that
    has expired as long as it can be renewed. Raises InvalidCredentialsError where there is none,
    InsufficientScopeError, ImproperlyConfigured.
    """
    resource = required_resource(principal.endpoint)
    tokens = get_access_token_model()._default_manager.filter(
        user=principal.user_id, application__client_id=principal.client_id
    )
    held = [
        frozenset[str](token.scopes)
        for token in tokens
        if resource.is_named_by(token.resource) and (not token.is_expired() or _is_renewable(token))
    ]
    if not held:
        raise refused("its user does not let its client in any more")
    good = [each for each in held if not scopes.missing(resource.required_scopes, each)]
    if not good:
        raise InsufficientScopeError(scopes.missing(resource.required_scopes, held[0]))
    return frozenset[str]().union(*good)


def could_open(scope: Collection[str], resources: Collection[str]) -> bool:
    """Whether what a client asks a user for could let it in at an endpoint of this site.

    It need not name that now: the toolkit lets a client name its resource when it fetches its token, so scopes do.
    """
    for endpoint in settings.endpoints:
        resource = protected_resource(endpoint)
        if resource is None or oauth2_settings.OIDC_ISS_ENDPOINT not in resource.issuers:
            continue
        if resource.is_named_by(list(resources)) or not scopes.missing(resource.required_scopes, frozenset(scope)):
            return True
    return False


def _is_renewable(token: Any) -> bool:
    """Whether its client may have another for it: as its validator's `validate_refresh_token` says."""
    lasts = refresh_token_expire_timedelta()
    if lasts is not None and token.expires + lasts <= timezone.now():
        return False
    renewing = get_refresh_token_model()._default_manager.filter(access_token=token, revoked__isnull=True)
    return bool(renewing.exists())


def _in_force(shown: str, uri: str) -> Any:
    """The toolkit's row of the token, found by its digest, by the site's own validator of the toolkit."""
    request = Request(uri)
    if not oauth2_settings.OAUTH2_VALIDATOR_CLASS().validate_bearer_token(shown, [], request):
        raise refused("it is unknown, has expired, was revoked or is for another resource")
    return request.access_token
