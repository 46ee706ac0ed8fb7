"""What the authorization server is asked over HTTP: within a bound of time and of size, at its own address.

Refuses redirects, which would carry a token or this server's own credentials elsewhere. The log gets addresses of the
settings and kinds of errors; nothing that was sent or received.
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from mcp_app.auth.authentication import UndecidedError
from mcp_app.conf import KIB, settings

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
    """The JSON object at `url`; with a `form`, the answer to posting it. Raises UndecidedError where there is none."""
    if url in _left_alone_until:
        if time.monotonic() < _left_alone_until[url]:
            raise UndecidedError
        _left_alone_until[url] = time.monotonic() + settings.OAUTH_TIMEOUT
    try:
        answer = json.loads(_fetch(url, form, headers or {}))
        if not isinstance(answer, dict):
            raise ValueError("no JSON object")
    except HTTPError as error:
        with error:
            raise _failure(url, f"status {error.code}") from None
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        raise _failure(url, type(error).__name__) from None
    _left_alone_until.pop(url, None)
    return answer


def _failure(url: str, kind: str) -> UndecidedError:
    _left_alone_until[url] = time.monotonic() + LEFT_ALONE_SECONDS
    logger.error("the authorization server gave no usable answer at %s: %s", url, kind)
    return UndecidedError()


def _fetch(url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> bytes:
    """Raises OSError, HTTPException, ValueError."""
    if not url.lower().startswith(("https://", "http://")):
        raise ValueError("not an address of the web")
    data = None if form is None else urlencode(form).encode()
    request = Request(url, data, {"Accept": "application/json", **headers})  # noqa: S310 - see above
    seconds: float = settings.OAUTH_TIMEOUT
    exchange = _Exchange()
    # A socket's own time limit is for one read; who sends a byte now and then would never meet it.
    timer = threading.Timer(seconds, exchange.cut)
    timer.daemon = True
    timer.start()
    try:
        opener = build_opener(_NoRedirects, _Plain(exchange), _Encrypted(exchange))
        with opener.open(request, timeout=seconds) as response:
            body: bytes = response.read(MAX_BYTES + 1)
    finally:
        timer.cancel()
    if exchange.was_cut:
        raise TimeoutError
    if len(body) > MAX_BYTES:
        raise ValueError("the answer is too large")
    return body


class _Exchange:
    """The sockets of one request, to be cut from another thread."""

    def __init__(self) -> None:
        self.was_cut = False
        self._sockets: list[socket.socket] = []

    def connected(self, connection: HTTPConnection) -> None:
        self._sockets.append(connection.sock)
        if self.was_cut:
            self.cut()

    def cut(self) -> None:
        self.was_cut = True
        for each in self._sockets:
            with suppress(OSError):
                # Not `each.shutdown`: that of TLS takes away what the reading thread uses.
                socket.socket.shutdown(each, socket.SHUT_RDWR)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


class _Plain(HTTPHandler):
    def __init__(self, exchange: _Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def http_open(self, req: Request) -> Any:
        return self.do_open(_watched(HTTPConnection, self._exchange), req)


class _Encrypted(HTTPSHandler):
    def __init__(self, exchange: _Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def https_open(self, req: Request) -> Any:
        return self.do_open(_watched(HTTPSConnection, self._exchange), req)


def _watched(base: type[HTTPConnection], exchange: _Exchange) -> Any:
    """`base`, whose connections tell the exchange of their sockets."""

    def connect(self: HTTPConnection) -> None:
        base.connect(self)
        exchange.connected(self)

    return type("Watched", (base,), {"connect": connect})
