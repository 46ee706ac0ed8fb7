"""Check access tokens of any kind by asking their issuer, and cache the answer for seconds.

A revoked token is accepted for at most `OAUTH_INTROSPECTION_CACHE` more seconds. While the issuer
cannot be asked, only callers with a cached answer are admitted. The cache's keys are digests of
tokens. Source: RFC 7662.
"""

import hashlib
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from django.core.exceptions import ImproperlyConfigured

from mcp_app.auth.authentication import HTTPConnection, bearer_token
from mcp_app.auth.oauth import claims
from mcp_app.auth.oauth.claims import LEEWAY_SECONDS, MAX_CACHE_SECONDS, token_refusal
from mcp_app.auth.oauth.fetching import fetch_json
from mcp_app.auth.oauth.resource import required_resource
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings

MAX_REMEMBERED: Final = 2_000

Answer = Mapping[str, Any]


def bearer(connection: HTTPConnection) -> Principal | None:
    """Return the principal of the token in `Authorization: Bearer …`, or `None` without one.

    Raises `InvalidCredentialsError`, `InsufficientScopeError`, `UndecidedError`,
    `ImproperlyConfigured`.
    """
    token = bearer_token(connection)
    if token is None:
        return None
    issuers, own = required_resource(connection.endpoint).issuers, settings.at(connection.endpoint)
    url = own.OAUTH_INTROSPECTION_URL
    if len(issuers) != 1 or url is None:
        raise ImproperlyConfigured('Introspection needs MCP["OAUTH_INTROSPECTION_URL"] and exactly one issuer.')
    login = (own.OAUTH_CLIENT_ID or "", own.OAUTH_CLIENT_SECRET or "")
    issuer_and_client = f"{login[0]} {url}"  # the answer may depend on the client that asks
    answer = _answers.get(issuer_and_client, token)
    if answer is None:
        # The token may be revoked while the request is under way, so the cache counts from here.
        asked_at = time.monotonic()
        answer = _introspect(url, token, login)
        _answers.store(issuer_and_client, token, answer, asked_at)
    _check_answer(answer, issuers[0])
    return claims.principal_from_claims(answer, issuers[0], connection.endpoint)


def _introspect(url: str, token: str, login: tuple[str, str]) -> Answer:
    """Ask the issuer about a token.

    `login` is the client id and secret. Raises `UndecidedError`.
    """
    # RFC 6749 §2.3.1 requires both to be encoded before they are joined.
    joined = ":".join(map(quote_plus, login))
    credentials = {"Authorization": f"Basic {b64encode(joined.encode()).decode()}"}
    return fetch_json(url, {"token": token, "token_type_hint": "access_token"}, credentials)


def _check_answer(answer: Answer, issuer: str) -> None:
    """Raise `InvalidCredentialsError` unless the token is in force and from this issuer."""
    if answer.get("active") is not True:
        raise token_refusal("its issuer reports that it is not active")
    # The address already identifies the issuer. The answer must not contradict it.
    if answer.get("iss", issuer) != issuer:
        raise token_refusal("it has another issuer")
    now = time.time()
    expires_at, begins_at = answer.get("exp", now), answer.get("nbf", now)
    if not _is_time(expires_at) or expires_at <= now - LEEWAY_SECONDS:
        raise token_refusal("it has expired")
    if not _is_time(begins_at) or begins_at > now + LEEWAY_SECONDS:
        raise token_refusal("it is not yet valid")


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class _AnswerCache:
    """The issuer's answers of the last seconds. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()

    def get(self, issuer_and_client: str, token: str) -> Answer | None:
        with self._lock:
            asked_at, answer = self._answers.get(_digest(issuer_and_client, token), (float("-inf"), None))
        seconds: float = min(settings.OAUTH_INTROSPECTION_CACHE, MAX_CACHE_SECONDS)
        return answer if time.monotonic() - asked_at < seconds else None

    def store(self, issuer_and_client: str, token: str, answer: Answer, asked_at: float) -> None:
        key = _digest(issuer_and_client, token)
        with self._lock:
            self._answers[key] = (asked_at, answer)
            self._answers.move_to_end(key)
            while len(self._answers) > MAX_REMEMBERED:
                self._answers.popitem(last=False)


_answers = _AnswerCache()


def _digest(issuer_and_client: str, token: str) -> bytes:
    return hashlib.sha256(f"{issuer_and_client} {token}".encode()).digest()
