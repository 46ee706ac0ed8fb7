"""Access tokens that are JWTs: `bearer` verifies each by its issuer's keys, without asking anybody.

Such a token is good until it expires, whatever became of it meanwhile; who needs revocation uses `introspection`.
Refuses every algorithm with a shared secret, and `none`, whatever the settings say. Source: RFC 9068, RFC 8725.
"""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.credentials import bearer_token
from mcp_app.auth.oauth import claims
from mcp_app.auth.oauth.algorithms import ASYMMETRIC
from mcp_app.auth.oauth.claims import LEEWAY_SECONDS, refused
from mcp_app.auth.oauth.resource import required_resource
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings

try:
    import jwt

    from mcp_app.auth.oauth.keys import key_set
except ImportError as error:
    raise ImportError("tokens that are JWTs take PyJWT: pip install 'django-mcp-app[oauth]'") from error


def bearer(connection: HTTPConnection) -> Principal | None:
    """Who the JWT in a request's `Authorization: Bearer …` says asks; None without one.

    Raises InvalidCredentialsError, InsufficientScopeError, UndecidedError, ImproperlyConfigured.
    """
    token = bearer_token(connection)
    if token is None:
        return None
    try:
        verified = _verified(token, connection.endpoint)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise refused(type(error).__name__) from None
    return claims.principal(verified, verified["iss"], connection.endpoint)


def _verified(token: str, endpoint: str) -> dict[str, Any]:
    """The token's claims: signed by who is named in them, in force. Raises jwt.PyJWTError and as `bearer`."""
    issuers, addresses = required_resource(endpoint).issuers, settings.at(endpoint).OAUTH_JWKS_URLS
    header = jwt.get_unverified_header(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ASYMMETRIC.intersection(settings.OAUTH_ALGORITHMS):
        raise refused("its algorithm is not allowed")
    if not _is_access_token(header.get("typ", "JWT")):
        raise refused("its type is not allowed")
    issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    if issuer not in issuers:
        raise refused("it has another issuer")
    if issuer not in addresses:
        raise ImproperlyConfigured('MCP["OAUTH_JWKS_URLS"] has no address for the keys of one of the issuers.')
    key = key_set(addresses[issuer]).find(key_id, algorithm)
    if key is None:
        raise refused("its issuer has no such key")
    return jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        issuer=issuer,
        leeway=LEEWAY_SECONDS,
        options={
            "require": ["iss", "sub", "aud", "exp"],
            "verify_aud": False,  # `claims` does, for both kinds of tokens
            "enforce_minimum_key_length": True,
        },
    )


def _is_access_token(kind: object) -> bool:
    """By `typ`, a media type in any case, whose `application/` may be left out (RFC 7515 §4.1.9)."""
    if not isinstance(kind, str):
        return False
    return kind.lower().removeprefix("application/") in {each.lower() for each in settings.OAUTH_TOKEN_TYPES}
