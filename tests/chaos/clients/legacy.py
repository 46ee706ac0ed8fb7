"""Clients of revision 2025-11-25, with and without a session.

In a session, calls survive their connections and are cancelled by a notification.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from tests.chaos.clients.conversation import BROKEN, LEAVING, Conversation
from tests.chaos.clients.doors import Doors
from tests.chaos.clients.modern import arguments
from tests.chaos.ledger import Call, Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site
from tests.support.site import legacy_wire
from tests.support.site.wire import BOTH, JSON, Connection

ATTEMPTS: Final = 12
"""The number of attempts to resume a stream whose server has just ended."""


class Client:
    """A legacy client for one errand. It has a session only if `begin` has opened one."""

    def __init__(self, site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
        self.site = site
        self.ledger = ledger
        self.doors = doors
        self.errand = errand
        self.session = ""
        self.last_event = ""

    def begin(self) -> bool:
        """Open a session, and return whether the site created one."""
        params = {
            "protocolVersion": legacy_wire.VERSION,
            "capabilities": {},
            "clientInfo": {"name": "chaos", "version": "1"},
        }
        try:
            connection = self._post({"id": "0", "method": "initialize", "params": params}, self.errand.server)
            self.session = connection.response.headers.get("Mcp-Session-Id", "")
            connection.answer()
            connection.close()
            if self.session:
                self._post({"method": "notifications/initialized", "params": {}}, self.errand.other).close()
        except BROKEN:
            self.ledger.count("sessions that could not begin")
            return False
        return bool(self.session)

    def call(self) -> None:
        """Make the errand's call, and follow it until it ends or the client leaves."""
        door = {"command": self.doors.command, "admin": self.doors.admin}.get(self.errand.ending)
        if self.errand.ending == "word" and self.session:
            door = self._cancel
        conversation = Conversation(self.site, self.ledger, self.errand, door=door)
        if (opened := conversation.open()) is None:
            return
        call, connection = opened
        meta = {"_meta": {"progressToken": self.errand.tag}}
        params = {"name": self.errand.tool, "arguments": arguments(self.errand), **meta}
        message = {"id": self.errand.tag, "method": "tools/call", "params": params}
        try:
            self._send(connection, message)
        except BROKEN as error:
            call.end("cut", f"sending: {error}")
            connection.close()
            return
        conversation.hear(call, connection, events=lambda: self._events(connection))
        comes_back = self.session and self.errand.twist < 0.6 and self.last_event
        if comes_back and (call.fate == "cut" or (call.fate == "left" and self.errand.ending in LEAVING)):
            self._resume(call)

    def end(self) -> None:
        """End the session with DELETE, in about half of the errands."""
        if self.session and self.errand.twist > 0.5:
            try:
                connection = self.site.to(self.errand.other)
                connection.send(b"", self._fields({}), "DELETE")
                connection.wait_at_most(10)
                connection.response.read()
                connection.close()
            except BROKEN:
                self.ledger.count("sessions that could not be ended")

    def _resume(self, call: Call) -> None:
        """Resume the stream at any server."""
        call.fate, call.note = "pending", f"resumed after it was {call.fate}"
        for attempt in range(ATTEMPTS):
            number = self.errand.other + attempt
            call.others.append(number % len(self.site.ports))
            try:
                connection = self.site.to(number)
                fields = self._fields({"Accept": "text/event-stream", "Last-Event-ID": self.last_event})
                connection.send(b"", fields, "GET")
                again = Conversation(self.site, self.ledger, replace(self.errand, ending="stay"))
                again.hear(call, connection, events=lambda kept=connection: self._events(kept))  # type: ignore[misc]
            except OSError:
                time.sleep(0.4)
                continue
            is_elsewhere = call.fate == "refused" and call.http == 503  # the resumption was refused, not the call
            if call.fate != "cut" and not is_elsewhere:
                return
            if is_elsewhere:
                call.error, call.responses = None, call.responses - 1
            call.fate = "pending"
            time.sleep(0.2)
        call.end("cut", "it came back in vain")

    def _events(self, connection: Connection) -> Iterator[dict[str, Any] | None]:
        for event in legacy_wire.events(connection):
            if event is not None and event.id:
                self.last_event = event.id
            yield None if event is None else event.message

    def _cancel(self, errand: Errand, call: Call) -> None:
        params = {"requestId": errand.tag, "reason": "chaos"}
        try:
            connection = self._post({"method": "notifications/cancelled", "params": params}, errand.other)
            connection.wait_at_most(30)
            call.doors.append(f"word: {connection.response.status}")
            connection.close()
        except BROKEN as error:
            call.doors.append(f"word: {type(error).__name__}")

    def _post(self, message: dict[str, Any], server: int) -> Connection:
        connection = self.site.to(server)
        connection.wait_at_most(30)
        self._send(connection, message)
        return connection

    def _send(self, connection: Connection, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        connection.send(body, self._fields({"Content-Type": JSON, "Accept": BOTH}))

    def _fields(self, fields: dict[str, str]) -> dict[str, str]:
        version = legacy_wire.VERSION if self.session else ""
        named = {"MCP-Protocol-Version": version, "Mcp-Session-Id": self.session, **fields}
        return {name: value for name, value in named.items() if value}


def session(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Make a call in a session."""
    client = Client(site, ledger, doors, errand)
    if client.begin():
        client.call()
        client.end()


def stateless(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Make a call without a session."""
    Client(site, ledger, doors, errand).call()
