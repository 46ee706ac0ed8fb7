"""The keys by which an issuer signs: fetched when needed, kept for minutes, fetched again for one that is new.

However many unknown keys are named, the issuer is asked once in a while. Refuses keys that are not public.
Source: RFC 7517.
"""

import threading
import time
from functools import lru_cache
from typing import Any, Final

from jwt import PyJWK, PyJWTError

from mcp_app.auth.authentication import UndecidedError
from mcp_app.auth.oauth.fetching import fetch_json

FRESH_SECONDS: Final = 300.0
USABLE_SECONDS: Final = 3600.0
"""How long keys are good that cannot be fetched again: an issuer that is away has withdrawn none."""
REFETCH_SECONDS: Final = 10.0
"""From one successful fetch to the next, however many unknown keys are named meanwhile."""


class KeySet:
    """The keys at one address. For many threads."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fetching = threading.Lock()
        self._keys: list[dict[str, Any]] = []
        self._fetched_at = self._tried_at = float("-inf")

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """The key of that id, or without one the only one there is, for this algorithm; None where there is none.

        Raises UndecidedError where the issuer cannot be asked.
        """
        if time.monotonic() - self._fetched_at > FRESH_SECONDS:
            # Of those who come meanwhile nobody waits who has a key.
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
        named = [key for key in self._keys if key_id is None or key.get("kid") == key_id]
        fitting = [made for key in named if (made := _for_algorithm(key, algorithm)) is not None]
        return fitting[0] if fitting and (key_id is not None or len(fitting) == 1) else None

    def _refresh(self, *, wait: bool) -> None:
        """Fetch them, unless that was done just now. Whether it went well the times say."""
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
    """The one of this process."""
    return KeySet(url)


def _for_algorithm(key: dict[str, Any], algorithm: str) -> PyJWK | None:
    """The key, bound to the algorithm; None where it is not for that, or not for signatures."""
    if key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm or key.get("kty") == "oct":
        return None
    try:
        return PyJWK(key, algorithm)
    except (PyJWTError, ValueError, TypeError):  # of another kind than the algorithm's, or broken
        return None
