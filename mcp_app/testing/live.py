"""The live client: it calls tools over HTTP at a site with a worker, with real interrupts and kills.

Example::

    with running(folder) as site:
        stopped = LiveClient(site).call("work", cancel_after=1)
        assert stopped.stage == Stage.KILL

It cancels a call as other clients do, by disconnecting. It reads rows from the site's database, so the test must
commit the data that the site needs.
"""

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final, TypeVar
from uuid import uuid4

from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth import tokens
from mcp_app.conf import settings
from mcp_app.lifecycle.requests.observation import final_result
from mcp_app.models import Request
from mcp_app.states import TERMINAL, Status
from mcp_app.testing.caller import CLIENT_NAME, Call, Caller
from mcp_app.testing.live_site import LiveSite

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds in which something must come: an answer, a keep-alive, the end of a call that was left."""
LOOK_SECONDS: Final = 0.01
_EVENT: Final = b"data: "


class LiveClient(Caller):
    """A client of a live site. It is anonymous until `force_login`, which stores a token for it.

    With pytest, the fixture `mcp_live_client` is such a client.
    """

    def __init__(self, site: LiveSite) -> None:
        super().__init__()
        self._site = site
        self._token: str | None = None

    def force_login(self, user: AbstractBaseUser, scopes: Iterable[str] | None = None) -> None:
        granted = None if scopes is None else sorted(scopes)
        self._token = tokens.issue(user, CLIENT_NAME, by=CLIENT_NAME, scopes=granted).text

    def logout(self) -> None:
        self._token = None

    def _send(self, message: Mapping[str, Any], headers: Mapping[str, str], call: Call) -> Mapping[str, Any]:
        message = {**message, "id": uuid4().hex}
        connection = HTTPConnection("127.0.0.1", self._site.port, timeout=PATIENCE)
        try:
            path = settings.at(self.endpoint).PATH
            connection.request("POST", path, json.dumps(message).encode(), self._fields(headers))
            answered = _answer(connection, message["id"], call)
        finally:
            connection.close()
        row = _row(message["id"]) if message["method"] == "tools/call" else None
        if answered is None:
            row = _eventually(partial(_ended, message["id"]))
            answered = {"result": final_result(row)}
        call.request_id = call.request_id if row is None else row.pk
        return answered

    def _fields(self, headers: Mapping[str, str]) -> dict[str, str]:
        fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        return fields if self._token is None else {**fields, "Authorization": f"Bearer {self._token}"}


def _answer(connection: HTTPConnection, message_id: str, call: Call) -> Mapping[str, Any] | None:
    """Pass on the messages before the response, and return it, or `None` if the test disconnected first."""
    left = threading.Event()

    def leave() -> None:
        left.set()
        with suppress(OSError):
            assert connection.sock is not None
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(call.cancel_after or 0.0, leave)
    if call.cancel_after is not None and _begins(connection, message_id):
        timer.start()
    try:
        response = connection.getresponse()
        if response.headers.get_content_type() == "application/json":
            answered: Mapping[str, Any] = json.loads(response.read())
            return answered
        return _last(response, call, leave)
    except (OSError, HTTPException):
        if not left.is_set():
            raise
        return None
    finally:
        timer.cancel()


def _last(response: HTTPResponse, call: Call, leave: Callable[[], None]) -> Mapping[str, Any] | None:
    for message in _messages(response):
        if "method" not in message:
            return message
        call.told.add_notifications([message])
        if call.should_cancel_now(call.told):
            leave()
            return None
    return None


def _messages(response: HTTPResponse) -> Iterator[Mapping[str, Any]]:
    for line in response:
        if line.startswith(_EVENT):
            yield json.loads(line.removeprefix(_EVENT))


def _begins(connection: HTTPConnection, message_id: str) -> bool:
    """Return whether the call's run begins, once that is known. A call that is answered without a row was rejected."""

    def look() -> bool | None:
        is_answered = bool(select.select([connection.sock], [], [], 0)[0])
        if (row := _row(message_id)) is None:  # which a call has before the first byte of its answer
            return False if is_answered else None
        return None if row.status == Status.QUEUED else True

    return _eventually(look)


def _row(message_id: str) -> Request | None:
    return Request.objects.filter(jsonrpc_id=message_id).first()


def _ended(message_id: str) -> Request | None:
    row = _row(message_id)
    return None if row is None or row.status not in TERMINAL else row


def _eventually(look: Callable[[], T | None]) -> T:
    """Poll until there is a value, and return it."""
    give_up_at = time.monotonic() + PATIENCE
    while (seen := look()) is None:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the call did not reach this point within {PATIENCE:g} s")
        time.sleep(LOOK_SECONDS)
    return seen
