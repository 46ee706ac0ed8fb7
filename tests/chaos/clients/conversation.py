"""One call and its client. Responses are recorded in the ledger until the call is answered or its client leaves."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from typing import Any, Final

from tests.chaos.ledger import Call, Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site
from tests.support.site.wire import Connection

SILENCE: Final = 75.0
"""Seconds within which even a call that waits for a worker, for an engine and for its end must be answered."""
AFTERWARDS: Final = 10.0
"""Seconds for which the client reads on after an answer, to find further responses."""
TRY_AGAIN_AFTER: Final = 0.5
LEAVING: Final = ("fin", "rst", "half")
BROKEN: Final = (OSError, HTTPException, ValueError, AttributeError)
"""The exceptions of the standard library's HTTP client for a connection that breaks, even within a number or a line."""

Door = Callable[[Errand, Call], None]


def reach(site: Site, ledger: Ledger, errand: Errand) -> Connection | None:
    """Return a connection to the errand's server, or `None` if the server accepts no connection."""
    try:
        return site.to(errand.server)
    except OSError:
        ledger.count("connections refused")
        return None


class Conversation:
    """The client's side of one call on one connection."""

    def __init__(self, site: Site, ledger: Ledger, errand: Errand, *, door: Door | None = None) -> None:
        self.site = site
        self.ledger = ledger
        self.errand = errand
        self._door = door
        self._door_thread: threading.Thread | None = None

    def open(self, tool: str | None = None, tag: str | None = None) -> tuple[Call, Connection] | None:
        """Return a record of the call and a connection for it, or `None` if the server accepts no connection."""
        errand = self.errand
        connection = reach(self.site, self.ledger, errand)
        if connection is None:
            time.sleep(0.2)
            return None
        plan = f"{errand.ending} after {errand.after} s of {errand.seconds} s"
        number = errand.server % len(self.site.ports)
        call = Call(tag or errand.tag, errand.kind, tool or errand.tool, plan, number)
        return self.ledger.open(call), connection

    def hear(self, call: Call, connection: Connection, *, events: Callable[[], Iterator[Any]] | None = None) -> None:
        """Read until the answer, or disconnect as the errand requires. Closes the connection."""
        leaves = self.errand.ending in LEAVING
        if self._door is not None:
            self._door_thread = threading.Thread(target=self._walk, args=(call,), daemon=True)
            self._door_thread.start()
        try:
            self._listen(call, connection, time.monotonic() + (self.errand.after if leaves else 1e9), events)
        except TimeoutError:
            self._leave(call, connection, in_time=leaves)
        except BROKEN as error:
            call.end("cut", f"{type(error).__name__}: {error}")
        else:
            call.end("cut", "the stream ended without an answer")
        finally:
            connection.close()
            if self._door_thread is not None:
                self._door_thread.join(SILENCE)
            if call.fate in ("refused", "cut"):
                time.sleep(TRY_AGAIN_AFTER)

    def _listen(
        self, call: Call, connection: Connection, until: float, events: Callable[[], Iterator[Any]] | None
    ) -> None:
        connection.wait_at_most(_span(until))
        response = connection.response
        if not connection.is_stream:
            call.http = response.status
            body = response.read()
            note(call, json.loads(body) if body else {}, response.status)
            return
        for frame in events() if events is not None else connection.frames():
            if frame is not None:
                note(call, frame, response.status)
            if call.fate == "pending":
                connection.wait_at_most(_span(until))
            else:
                connection.wait_at_most(AFTERWARDS)

    def _leave(self, call: Call, connection: Connection, *, in_time: bool) -> None:
        if call.fate != "pending":
            call.note = "its stream stayed open after the answer"
        elif not in_time:
            call.end("silent", f"nothing for {SILENCE:g} s")
        elif self.errand.ending == "half":
            with suppress(OSError):
                connection.half_close()
            time.sleep(min(1.0, self.errand.seconds))
        else:
            leave(connection, by_reset=self.errand.ending == "rst")
        call.end("left", self.errand.ending)

    def _walk(self, call: Call) -> None:
        time.sleep(self.errand.after)
        if call.fate == "pending" and self._door is not None:
            self._door(self.errand, call)


def leave(connection: Connection, *, by_reset: bool) -> None:
    """Disconnect by RST or by FIN. The connection may already be closed."""
    with suppress(OSError):
        if by_reset:
            connection.reset()
    connection.close()


def note(call: Call, message: dict[str, Any], status: int) -> None:
    """Record a response. Other messages are ignored."""
    if "method" in message:
        return
    call.http = status
    if "result" in message or "error" in message:
        call.responses += 1
    if "result" in message:
        call.answer = message["result"]
        call.end("answered")
    else:
        call.error = message.get("error")
        call.end("refused", f"HTTP {status}: {call.error}")


def _span(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return min(SILENCE, left)
