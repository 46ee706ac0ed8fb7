"""Access tokens of any kind: `bearer` asks their issuer about each, and again after seconds.

So a revoked token is good for `OAUTH_INTROSPECTION_CACHE` more seconds at most. While the issuer cannot be asked nobody
is let in for whom it has not just vouched. What is remembered is found by a digest of the token. Source: RFC 7662.
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

from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.credentials import bearer_token
from mcp_app.auth.oauth import claims
from mcp_app.auth.oauth.bounds import MAX_CACHE_SECONDS
from mcp_app.auth.oauth.claims import LEEWAY_SECONDS, refused
from mcp_app.auth.oauth.fetching import fetch_json
from mcp_app.auth.oauth.resource import required_resource
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings

MAX_REMEMBERED: Final = 2_000

Answer = Mapping[str, Any]


def bearer(connection: HTTPConnection) -> Principal | None:
    """Who the issuer says of a request's `Authorization: Bearer …` asks; None without one.

    Raises InvalidCredentialsError, InsufficientScopeError, UndecidedError, ImproperlyConfigured.
    """
    token = bearer_token(connection)
    if token is None:
        return None
    issuers, own = required_resource(connection.endpoint).issuers, settings.at(connection.endpoint)
    url = own.OAUTH_INTROSPECTION_URL
    if len(issuers) != 1 or url is None:
        raise ImproperlyConfigured('Introspection takes MCP["OAUTH_INTROSPECTION_URL"] and a single issuer.')
    login = (own.OAUTH_CLIENT_ID or "", own.OAUTH_CLIENT_SECRET or "")
    asked = f"{login[0]} {url}"  # what is told may depend on who asks
    answer = _recent.get(asked, token)
    if answer is None:
        # It may have been revoked ever since the question was on its way.
        asked_at = time.monotonic()
        answer = _ask(url, token, login)
        _recent.keep(asked, token, answer, asked_at)
    _check(answer, issuers[0])
    return claims.principal(answer, issuers[0], connection.endpoint)


def _ask(url: str, token: str, login: tuple[str, str]) -> Answer:
    """`login`: id and secret. Raises UndecidedError."""
    # RFC 6749 §2.3.1 has both encoded before they are joined.
    joined = ":".join(map(quote_plus, login))
    credentials = {"Authorization": f"Basic {b64encode(joined.encode()).decode()}"}
    return fetch_json(url, {"token": token, "token_type_hint": "access_token"}, credentials)


def _check(answer: Answer, issuer: str) -> None:
    """Raises InvalidCredentialsError unless the token is in force, and this issuer's."""
    if answer.get("active") is not True:
        raise refused("its issuer says that it is not active")
    # Who answers is known by the address; what the answer says besides must not contradict that.
    if answer.get("iss", issuer) != issuer:
        raise refused("it has another issuer")
    now = time.time()
    expires_at, begins_at = answer.get("exp", now), answer.get("nbf", now)
    if not _is_time(expires_at) or expires_at <= now - LEEWAY_SECONDS:
        raise refused("it has expired")
    if not _is_time(begins_at) or begins_at > now + LEEWAY_SECONDS:
        raise refused("it is not yet valid")


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class _Recent:
    """The issuer's answers of the last seconds. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()

    def get(self, asked: str, token: str) -> Answer | None:
        with self._lock:
            asked_at, answer = self._answers.get(_digest(asked, token), (float("-inf"), None))
        return answer if time.monotonic() - asked_at < _cache_seconds() else None

    def keep(self, asked: str, token: str, answer: Answer, asked_at: float) -> None:
        key = _digest(asked, token)
        with self._lock:
            self._answers[key] = (asked_at, answer)
            self._answers.move_to_end(key)
            while len(self._answers) > MAX_REMEMBERED:
                self._answers.popitem(last=False)


_recent = _Recent()


def _cache_seconds() -> float:
    wanted: float = settings.OAUTH_INTROSPECTION_CACHE
    return min(wanted, MAX_CACHE_SECONDS)


def _digest(asked: str, token: str) -> bytes:
    return hashlib.sha256(f"{asked} {token}".encode()).digest()
