"""Turn the claims of a token into a principal.

The claims come from a verified signature or from the issuer itself. A token that was issued for
another endpoint is rejected. The response does not contain the reason of a rejection. The log
does, but never a part of the token.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from django.contrib.auth.models import AbstractBaseUser
from django.utils.module_loading import import_string

from mcp_app.auth.authentication import MAX_CHARS, InsufficientScopeError, InvalidCredentialsError
from mcp_app.auth.oauth.resource import required_resource
from mcp_app.auth.principal import Principal, missing_scopes
from mcp_app.conf import settings

logger = logging.getLogger(__name__)
ASYMMETRIC: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
MAX_CACHE_SECONDS: Final = 60.0
"""Longest time to cache an issuer's answer about a token. A revoked token is accepted that long."""
LEEWAY_SECONDS: Final = 10.0
"""Tolerated difference between the issuer's clock and this server's."""
_NAMES: Final = ("preferred_username", "username", "email", "sub")


def token_refusal(reason: str) -> InvalidCredentialsError:
    """Log why a token is rejected and return the error to raise.

    `reason` must not contain any part of a token or of its claims.
    """
    logger.info("a token was refused: %s", reason)
    return InvalidCredentialsError()


def principal_from_claims(
    claims: Mapping[str, Any], issuer: str, endpoint: str, user: AbstractBaseUser | None = None
) -> Principal:
    """Return the principal of a token's claims at an endpoint.

    The caller checks the issuer and the times. `user` is the user of the site if the issuer knows
    it; otherwise `MCP["OAUTH_USER"]` is called. Raises `InvalidCredentialsError`,
    `InsufficientScopeError`, `ImproperlyConfigured`.
    """
    resource = required_resource(endpoint)
    if not resource.accepts_audience(claims.get("aud")):
        raise token_refusal("it was issued for another audience")
    if "cnf" in claims:  # a token that only the holder of a key may use (RFC 9449, RFC 8705)
        raise token_refusal("it is bound to a key (DPoP or mTLS), which this server does not support")
    subject = claims.get("sub")
    client = claims.get("client_id") or claims.get("azp") or ""
    if not _is_name(subject) or not (client == "" or _is_name(client)):
        raise token_refusal("its subject or client is missing or is not plain text")
    given = _scopes(claims)
    if missing := missing_scopes(resource.required_scopes, given):
        raise InsufficientScopeError(missing)
    user = _user(claims, endpoint) if user is None else user
    if user is not None and not user.is_active:
        raise token_refusal("its user is not active")
    return Principal(
        issuer,
        subject,
        client_id=client,
        label=_label(claims) if user is None else user.get_username()[:MAX_CHARS],
        user_id="" if user is None else str(user.pk),
        scopes=given,
    )


def _is_name(value: object) -> TypeGuard[str]:
    """Return whether a claim can be stored and shown as a name.

    A name that is too long is not shortened, because it could then equal another caller's.
    """
    return isinstance(value, str) and 0 < len(value) <= MAX_CHARS and value.isprintable()


def _label(claims: Mapping[str, Any]) -> str:
    return next(str(claims[name]) for name in _NAMES if _is_name(claims.get(name)))


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes in `scope` (RFC 9068, RFC 7662) or `scp`, each a text or a list.

    A token without scopes grants none.
    """
    given = claims.get("scope") or claims.get("scp") or ()
    names = given.split(" ") if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str) and name)


def _user(claims: Mapping[str, Any], endpoint: str) -> AbstractBaseUser | None:
    """Return the user of the site that `MCP["OAUTH_USER"]` finds, or `None`."""
    finds = settings.at(endpoint).OAUTH_USER
    if finds is None:
        return None
    user: AbstractBaseUser | None = import_string(finds)(claims)
    return user
