"""Who asked, asked about again without their request: the caller of a call that waited, when its tool is to start.

Asks what the site itself knows: the user, what the endpoint takes of them, and the tokens that the site issued, which a
principal names by its client. No credential is stored for that. Refuses to guess of what others issued.
"""

from dataclasses import replace

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth import local, scopes, tokens
from mcp_app.auth.authentication import (
    InsufficientScopeError,
    InvalidCredentialsError,
    access_to,
    invalid_credentials,
    not_let_in,
)
from mcp_app.auth.challenges import insufficient_scope, unauthorized
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import NOT_FOUND, Rejection, refuse


def confirm(principal: Principal) -> Principal | Rejection:
    """The same, with no scope that its token has lost; or why it is let in no more, in the words of its endpoint.

    Blocks on the database. Raises django.db.Error, ImproperlyConfigured.
    """
    endpoint = principal.endpoint
    if endpoint not in settings.endpoints:
        return refuse(NOT_FOUND, "The endpoint of this call is not there any more.")
    user = _user(principal.user_id)
    if principal.user_id and (user is None or not user.is_active):
        return unauthorized("The user of this call may not log in any more.", endpoint, error="invalid_token")
    # Who started `mcp stdio` has passed no endpoint's door.
    if principal.issuer != local.ISSUER and not access_to(endpoint).admits(user):
        return not_let_in()
    try:
        common = _common(principal.scopes, _given_now(principal))
    except InvalidCredentialsError:
        return invalid_credentials(endpoint)
    except InsufficientScopeError as error:
        return insufficient_scope(error.missing, (), endpoint)
    return principal if common == principal.scopes else replace(principal, scopes=common)


def _user(user_id: str) -> AbstractBaseUser | None:
    return get_user_model()._default_manager.filter(pk=user_id).first() if user_id else None


def _given_now(principal: Principal) -> frozenset[str] | None:
    """What the site says that its token is given for; None where none limits it, or the site does not know.

    Raises InvalidCredentialsError, InsufficientScopeError, ImproperlyConfigured.
    """
    if tokens.is_bearer(principal):
        return tokens.given(principal)
    if apps.is_installed("oauth2_provider"):
        from mcp_app.auth.oauth import toolkit

        if toolkit.is_bearer(principal):
            return toolkit.given(principal)
    return None


def _common(stored: frozenset[str] | None, now: frozenset[str] | None) -> frozenset[str] | None:
    if stored is None or now is None:
        return now if stored is None else stored
    return scopes.with_implied(stored) & scopes.with_implied(now)
