"""Look up access tokens that the site itself has issued with django-oauth-toolkit.

Access ends as soon as a token is revoked or its user may no longer log in. Two kinds of tokens are
rejected that the toolkit would accept: a token for no particular resource, and a token that no user
of the site has agreed to, which any client could get if clients can register themselves. Source:
2026-07-28 basic/authorization, RFC 8707.
"""

from collections.abc import Collection
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from mcp_app.auth.authentication import HTTPConnection, InsufficientScopeError, bearer_token
from mcp_app.auth.oauth import claims
from mcp_app.auth.oauth.claims import token_refusal
from mcp_app.auth.oauth.resource import protected_resource, required_resource
from mcp_app.auth.principal import Principal, missing_scopes
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
    what = "the site's own authorization server needs django-oauth-toolkit"
    raise ImportError(f"{what}: pip install 'django-mcp-app[oauth-server]'") from error


def bearer(connection: HTTPConnection) -> Principal | None:
    """Return the principal of the token in `Authorization: Bearer …`, or `None` without one.

    Raises `InvalidCredentialsError`, `InsufficientScopeError`, `ImproperlyConfigured`.
    """
    text = bearer_token(connection)
    if text is None:
        return None
    resource = required_resource(connection.endpoint)
    if len(resource.issuers) != 1:
        raise ImproperlyConfigured(
            'If the site is its own authorization server, MCP["OAUTH_ISSUERS"] may list no other.'
        )
    token = _in_force(text, resource.uri)
    if token.application is None:
        raise token_refusal("it was issued to no client of this site")
    user: AbstractBaseUser | None = token.user
    if user is None:
        raise token_refusal("no user of this site has authorized it")
    token_claims = {
        "aud": token.resource,
        "sub": str(user.pk),
        "client_id": token.application.client_id,
        "scope": " ".join(token.scopes),
    }
    return claims.principal_from_claims(token_claims, resource.issuers[0], connection.endpoint, user)


def is_from_bearer(principal: Principal) -> bool:
    """Return whether `bearer` made this principal."""
    own: str = oauth2_settings.OIDC_ISS_ENDPOINT
    return bool(own) and principal.issuer == own and principal.user_id == principal.subject


def granted_scopes(principal: Principal) -> frozenset[str]:
    """Return the scopes that the user of a principal, made by `bearer`, grants to its client now.

    Clients renew their tokens often, so this does not look for one certain token. Every token
    counts that is in force or can still be renewed. Raises `InvalidCredentialsError` if there is
    none, `InsufficientScopeError`, `ImproperlyConfigured`.
    """
    resource = required_resource(principal.endpoint)
    tokens = get_access_token_model()._default_manager.filter(
        user=principal.user_id, application__client_id=principal.client_id
    )
    scope_sets = [
        frozenset[str](token.scopes)
        for token in tokens
        if resource.accepts_audience(token.resource) and (not token.is_expired() or _is_renewable(token))
    ]
    if not scope_sets:
        raise token_refusal("its user's authorization of the client has been withdrawn or has expired")
    good = [each for each in scope_sets if not missing_scopes(resource.required_scopes, each)]
    if not good:
        raise InsufficientScopeError(missing_scopes(resource.required_scopes, scope_sets[0]))
    return frozenset[str]().union(*good)


def may_grant_access(scope: Collection[str], resources: Collection[str]) -> bool:
    """Return whether the scopes and resources that a client requests could admit it to an endpoint.

    The resource may be missing, because the toolkit lets a client name it later, when it fetches
    its token. The scopes decide then.
    """
    for endpoint in settings.endpoints:
        resource = protected_resource(endpoint)
        if resource is None or oauth2_settings.OIDC_ISS_ENDPOINT not in resource.issuers:
            continue
        if resource.accepts_audience(list(resources)) or not missing_scopes(resource.required_scopes, frozenset(scope)):
            return True
    return False


def _is_renewable(token: Any) -> bool:
    """Return whether the client can renew the token.

    The rules are those of the toolkit's `validate_refresh_token`.
    """
    lasts = refresh_token_expire_timedelta()
    if lasts is not None and token.expires + lasts <= timezone.now():
        return False
    renewing = get_refresh_token_model()._default_manager.filter(access_token=token, revoked__isnull=True)
    return bool(renewing.exists())


def _in_force(text: str, uri: str) -> Any:
    """Return the toolkit's row of a token that the site's validator accepts."""
    request = Request(uri)
    if not oauth2_settings.OAUTH2_VALIDATOR_CLASS().validate_bearer_token(text, [], request):
        raise token_refusal("it is unknown, has expired, was revoked or is for another resource")
    return request.access_token
