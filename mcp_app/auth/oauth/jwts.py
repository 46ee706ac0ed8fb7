"""Verify access tokens that are JWTs with the keys of their issuer.

The issuer is not asked about a token, so a token is accepted until it expires, even if it was
revoked. Use `introspection` if revocation matters. Algorithms with a shared secret, and `none`, are
rejected whatever the settings say.

The keys of an issuer are cached for minutes and fetched again when a token names an unknown key.
However many unknown keys are named, the issuer is asked at most once in `REFETCH_SECONDS`. Keys
that are not public are ignored. Source: RFC 9068, RFC 8725, RFC 7517.
"""

import threading
import time
from functools import lru_cache
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured

from mcp_app.auth.authentication import HTTPConnection, UndecidedError, bearer_token
from mcp_app.auth.oauth import claims
from mcp_app.auth.oauth.claims import ASYMMETRIC, LEEWAY_SECONDS, token_refusal
from mcp_app.auth.oauth.resource import required_resource
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings

try:
    import jwt
    from jwt import PyJWK, PyJWTError

    from mcp_app.auth.oauth.fetching import fetch_json
except ImportError as error:
    raise ImportError("JWTs need PyJWT: pip install 'django-mcp-app[oauth]'") from error

FRESH_SECONDS: Final = 300.0
USABLE_SECONDS: Final = 3600.0
"""How long to use keys that cannot be fetched again. An issuer that cannot be reached has withdrawn
none.
"""
REFETCH_SECONDS: Final = 10.0
"""Time between two successful fetches, however many unknown keys are named."""


def bearer(connection: HTTPConnection) -> Principal | None:
    """Return the principal of the JWT in `Authorization: Bearer …`, or `None` without one.

    Raises `InvalidCredentialsError`, `InsufficientScopeError`, `UndecidedError`,
    `ImproperlyConfigured`.
    """
    token = bearer_token(connection)
    if token is None:
        return None
    try:
        verified = _verified(token, connection.endpoint)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise token_refusal(type(error).__name__) from None
    return claims.principal_from_claims(verified, verified["iss"], connection.endpoint)


def _verified(token: str, endpoint: str) -> dict[str, Any]:
    """Return the claims of a token that is in force and signed by the issuer that it names.

    Raises `jwt.PyJWTError` and the errors of `bearer`.
    """
    issuers, addresses = required_resource(endpoint).issuers, settings.at(endpoint).OAUTH_JWKS_URLS
    header = jwt.get_unverified_header(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ASYMMETRIC.intersection(settings.OAUTH_ALGORITHMS):
        raise token_refusal("its algorithm is not allowed")
    if not _is_access_token(header.get("typ", "JWT")):
        raise token_refusal("its type is not allowed")
    issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    if issuer not in issuers:
        raise token_refusal("it has another issuer")
    if issuer not in addresses:
        raise ImproperlyConfigured('MCP["OAUTH_JWKS_URLS"] has no address for the keys of one of the issuers.')
    key = key_set(addresses[issuer]).find(key_id, algorithm)
    if key is None:
        raise token_refusal("its issuer has no such key")
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
    """Return whether `typ` is allowed.

    It is a media type in any case, with or without `application/` (RFC 7515 §4.1.9).
    """
    if not isinstance(kind, str):
        return False
    return kind.lower().removeprefix("application/") in {each.lower() for each in settings.OAUTH_TOKEN_TYPES}


class KeySet:
    """The keys at one address. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fetching = threading.Lock()
        self._keys: list[dict[str, Any]] = []
        self._fetched_at = self._tried_at = float("-inf")

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key with that id for this algorithm, or `None`.

        Without an id, return the only key for the algorithm. Raises `UndecidedError` if the issuer
        cannot be asked.
        """
        if time.monotonic() - self._fetched_at > FRESH_SECONDS:
            # Other threads do not wait for the fetch if they already have a usable key.
            self._refresh(wait=self._match(key_id, algorithm) is None)
        found = self._match(key_id, algorithm)
        if found is None:
            self._refresh(wait=True)
            found = self._match(key_id, algorithm)
        if found is None and self._fetched_at < self._tried_at:
            raise UndecidedError
        return found

    def _match(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        if time.monotonic() - self._fetched_at > USABLE_SECONDS:
            return None
        candidates = [key for key in self._keys if key_id is None or key.get("kid") == key_id]
        fitting = [fitting_key for key in candidates if (fitting_key := _for_algorithm(key, algorithm)) is not None]
        return fitting[0] if fitting and (key_id is not None or len(fitting) == 1) else None

    def _refresh(self, *, wait: bool) -> None:
        """Fetch the keys unless they were fetched just now.

        `_fetched_at` and `_tried_at` record the outcome.
        """
        if not self._fetching.acquire(blocking=wait):
            return
        try:
            if time.monotonic() - self._fetched_at < REFETCH_SECONDS:
                return
            self._tried_at = time.monotonic()
            try:
                keys = fetch_json(self._url).get("keys")
            except UndecidedError:
                return
            self._keys = [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
            self._fetched_at = time.monotonic()
        finally:
            self._fetching.release()


@lru_cache(maxsize=64)
def key_set(url: str) -> KeySet:
    """Return this process's keys of one address."""
    return KeySet(url)


def _for_algorithm(key: dict[str, Any], algorithm: str) -> PyJWK | None:
    """Return the key for use with the algorithm, or `None` if it has another purpose."""
    if key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm or key.get("kty") == "oct":
        return None
    try:
        return PyJWK(key, algorithm)
    except (PyJWTError, ValueError, TypeError):  # another type of key, or a broken one
        return None
