"""Check the caller of a call again, without their request, after the call has waited.

A call may wait for hours before its tool starts. This checks what the site itself knows: the user,
the endpoint's `PERMISSIONS` and `GROUPS`, and the tokens that the site issued, which a principal
names by its client. No credential is stored for this. Tokens of other issuers cannot be checked.
"""

from dataclasses import replace

from django.apps import apps

from mcp_app.auth import local, tokens
from mcp_app.auth.authentication import (
    InsufficientScopeError,
    InvalidCredentialsError,
    access_denied,
    endpoint_access,
    invalid_credentials,
)
from mcp_app.auth.challenges import insufficient_scope, unauthorized
from mcp_app.auth.principal import Principal, user_of, with_implied_scopes
from mcp_app.conf import settings
from mcp_app.protocol.errors import NOT_FOUND, Rejection, refuse


def confirm(principal: Principal) -> Principal | Rejection:
    """Return the principal with its current scopes, or the rejection that it gets now.

    Blocks on the database. Raises `django.db.Error`, `ImproperlyConfigured`.
    """
    endpoint = principal.endpoint
    if endpoint not in settings.endpoints:
        return refuse(NOT_FOUND, "The endpoint of this call no longer exists.")
    user = user_of(principal.user_id)
    if principal.user_id and (user is None or not user.is_active):
        return unauthorized("The user of this call is no longer active.", endpoint, error="invalid_token")
    # A user who started `mcp stdio` was never checked against the endpoint.
    if principal.issuer != local.ISSUER and not endpoint_access(endpoint).admits(user):
        return access_denied()
    try:
        now = None if principal.is_anonymous else _scopes_now(principal)
    except InvalidCredentialsError:
        return invalid_credentials(endpoint)
    except InsufficientScopeError as error:
        return insufficient_scope(error.missing, (), endpoint)
    stored = principal.scopes
    if stored is None:
        scopes = now
    elif now is None:
        scopes = stored
    else:
        scopes = with_implied_scopes(stored) & with_implied_scopes(now)
    return principal if scopes == stored else replace(principal, scopes=scopes)


def _scopes_now(principal: Principal) -> frozenset[str] | None:
    """Return the scopes that the principal's token has now.

    Return `None` if no token limits the caller, or the site did not issue it. Raises
    `InvalidCredentialsError`, `InsufficientScopeError`, `ImproperlyConfigured`.
    """
    if tokens.is_from_bearer(principal):
        return tokens.granted_scopes(principal)
    if apps.is_installed("oauth2_provider"):
        from mcp_app.auth.oauth import toolkit

        if toolkit.is_from_bearer(principal):
            return toolkit.granted_scopes(principal)
    return None
