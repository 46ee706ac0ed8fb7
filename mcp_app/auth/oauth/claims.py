"""From the claims of a token, proved or told by its issuer, to the principal: for whom it was issued, and what for.

Refuses a token that was not issued for this endpoint, and to say to its caller why. The log is told, in words of ours.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from django.contrib.auth.models import AbstractBaseUser
from django.utils.module_loading import import_string

from mcp_app.auth import scopes
from mcp_app.auth.authentication import MAX_CHARS, InsufficientScopeError, InvalidCredentialsError
from mcp_app.auth.oauth.resource import required_resource
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings

logger = logging.getLogger(__name__)

LEEWAY_SECONDS: Final = 10.0
"""By how much the issuer's clock and ours may differ."""
_NAMES: Final = ("preferred_username", "username", "email", "sub")


def refused(reason: str) -> InvalidCredentialsError:
    """To be raised. `reason` is for the log: nothing of a token, nor of what was made from one."""
    logger.info("a token was refused: %s", reason)
    return InvalidCredentialsError()


def principal(claims: Mapping[str, Any], issuer: str, user: AbstractBaseUser | None = None) -> Principal:
    """Who a token's claims say asks. Raises InvalidCredentialsError, InsufficientScopeError, ImproperlyConfigured.

    Its issuer and times are the caller's to check. `user`: the site's, where its issuer knows that; else
    `MCP["OAUTH_USER"]` is asked.
    """
    resource = required_resource()
    if not resource.is_named_by(claims.get("aud")):
        raise refused("it was issued for another audience")
    if "cnf" in claims:  # a token that only the holder of a key may use (RFC 9449, RFC 8705)
        raise refused("it is bound to a key, and it is not checked here who holds that")
    subject = claims.get("sub")
    client = claims.get("client_id") or claims.get("azp") or ""
    if not _is_name(subject) or not (client == "" or _is_name(client)):
        raise refused("its subject or client is missing, or no plain text")
    given = _scopes(claims)
    if missing := scopes.missing(resource.required_scopes, given):
        raise InsufficientScopeError(missing)
    user = _user(claims) if user is None else user
    if user is not None and not user.is_active:
        raise refused("its user is not active")
    return Principal(
        issuer,
        subject,
        client_id=client,
        label=_label(claims) if user is None else user.get_username()[:MAX_CHARS],
        user_id="" if user is None else str(user.pk),
        scopes=given,
    )


def _is_name(value: object) -> TypeGuard[str]:
    """Whether it can be stored and shown. A longer one is not cut: it would be another's."""
    return isinstance(value, str) and 0 < len(value) <= MAX_CHARS and value.isprintable()


def _label(claims: Mapping[str, Any]) -> str:
    return next(str(claims[name]) for name in _NAMES if _is_name(claims.get(name)))


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Of `scope` (RFC 9068, RFC 7662) or `scp`, one text or a list. None given: none, as a token limits its bearer."""
    given = claims.get("scope") or claims.get("scp") or ()
    names = given.split(" ") if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str) and name)


def _user(claims: Mapping[str, Any]) -> AbstractBaseUser | None:
    """The user of the site whom `MCP["OAUTH_USER"]` finds, if any."""
    if settings.OAUTH_USER is None:
        return None
    user: AbstractBaseUser | None = import_string(settings.OAUTH_USER)(claims)
    return user
