"""Fetch JSON from the authorization server, with limits of time and size.

Redirects are not followed, because they would carry a token or this server's own credentials
elsewhere. Compressed answers are rejected, because a small one can expand to gigabytes. The log
contains addresses from the settings and types of errors, and nothing that was sent or received.
"""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from mcp_app.auth.authentication import UndecidedError
from mcp_app.conf import KIB, settings

try:
    import httpx
except ImportError as error:
    raise ImportError("requests to an authorization server need httpx: pip install 'django-mcp-app[oauth]'") from error

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 256 * KIB
RETRY_AFTER_SECONDS: Final = 1.0
"""How long an address is not asked after a failure. Then a single request tries it. Otherwise a
server that is down would block all threads, including those that need not ask it.
"""

_retry_at: dict[str, float] = {}
"""The time of the next attempt, by address, for addresses that failed the last time."""


class _UnusableAnswerError(Exception):
    """An unusable answer. The message gives the reason, without any part of the answer."""


def fetch_json(
    url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the JSON object at `url`, or with a `form` the answer to posting it.

    Raises `UndecidedError` if there is no usable answer. Blocks on an event loop of its own, so
    call it in a thread without one.
    """
    if (until := _retry_at.get(url)) is not None:
        if time.monotonic() < until:
            raise UndecidedError
        _retry_at[url] = time.monotonic() + settings.OAUTH_TIMEOUT
    try:
        answer = json.loads(asyncio.run(_fetch(url, form, headers or {})))
        if not isinstance(answer, dict):
            raise _UnusableAnswerError("it is not a JSON object")
    except _UnusableAnswerError as error:
        raise _failure(url, str(error)) from None
    except httpx.HTTPStatusError as error:
        raise _failure(url, f"status {error.response.status_code}") from None
    except (OSError, httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
        raise _failure(url, type(error).__name__) from None
    _retry_at.pop(url, None)
    return answer


def _failure(url: str, kind: str) -> UndecidedError:
    _retry_at[url] = time.monotonic() + RETRY_AFTER_SECONDS
    logger.error("the authorization server at %s gave no usable response: %s", url, kind)
    return UndecidedError()


async def _fetch(url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> bytes:
    """Raises `TimeoutError`, `httpx.HTTPError`, `httpx.InvalidURL`, `_UnusableAnswerError`."""
    method = "GET" if form is None else "POST"
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
    body = bytearray()
    seconds: float = settings.OAUTH_TIMEOUT
    # One limit for the whole request. httpx limits each read, which a slow trickle of bytes never
    # exceeds.
    async with (
        asyncio.timeout(seconds),
        httpx.AsyncClient(verify=_ssl_context(), timeout=seconds) as client,
        client.stream(method, url, data=form, headers=headers) as response,
    ):
        response.raise_for_status()
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise _UnusableAnswerError("it is compressed, although the request did not allow that")
        # Not `aiter_bytes`, which decodes.
        async for part in response.aiter_raw():
            body += part
            if len(body) > MAX_BYTES:
                raise _UnusableAnswerError(f"it is larger than {MAX_BYTES} bytes")
    return bytes(body)


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    """Load the certificates that this machine trusts.

    That is slow, so it is done once in a process.
    """
    return ssl.create_default_context()
