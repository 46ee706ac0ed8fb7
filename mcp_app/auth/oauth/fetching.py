"""What the authorization server is asked over HTTP: within a bound of time and of size, at its own address.

Refuses redirects, which would carry a token or this server's own credentials elsewhere. The log gets addresses of the
settings and kinds of errors; nothing that was sent or received.
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
    raise ImportError("asking an authorization server takes httpx: pip install 'django-mcp-app[oauth]'") from error

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 256 * KIB
LEFT_ALONE_SECONDS: Final = 1.0
"""After a failure, that address. Then one request tries it: a server that is away would else keep every thread waiting,
also for those who need not ask it."""

_left_alone_until: dict[str, float] = {}
"""By address, of those that failed when they were last asked."""


def fetch_json(
    url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object at `url`; with a `form`, the answer to posting it. Raises UndecidedError where there is none.

    Blocks, on an event loop of its own: for threads that have none.
    """
    if (until := _left_alone_until.get(url)) is not None:
        if time.monotonic() < until:
            raise UndecidedError
        _left_alone_until[url] = time.monotonic() + settings.OAUTH_TIMEOUT
    try:
        answer = json.loads(asyncio.run(_fetch(url, form, headers or {})))
        if not isinstance(answer, dict):
            raise ValueError("no JSON object")
    except httpx.HTTPStatusError as error:
        raise _failure(url, f"status {error.response.status_code}") from None
    except (OSError, httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
        raise _failure(url, type(error).__name__) from None
    _left_alone_until.pop(url, None)
    return answer


def _failure(url: str, kind: str) -> UndecidedError:
    _left_alone_until[url] = time.monotonic() + LEFT_ALONE_SECONDS
    logger.error("the authorization server gave no usable answer at %s: %s", url, kind)
    return UndecidedError()


async def _fetch(url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> bytes:
    """Raises TimeoutError, httpx.HTTPError, httpx.InvalidURL, ValueError."""
    method = "GET" if form is None else "POST"
    headers = {"Accept": "application/json", **headers}
    body = bytearray()
    seconds: float = settings.OAUTH_TIMEOUT
    # One bound for all of it: httpx's is for each read, which who sends a byte now and then would never meet.
    async with (
        asyncio.timeout(seconds),
        httpx.AsyncClient(verify=_trusted(), timeout=seconds) as client,
        client.stream(method, url, data=form, headers=headers) as response,
    ):
        response.raise_for_status()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > MAX_BYTES:
                raise ValueError("the answer is too large")
    return bytes(body)


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """Whose certificates this machine takes. Reading them is dear, and once a process is enough."""
    return ssl.create_default_context()
