"""A client that starts `mcp stdio` as its own process and exchanges lines with it."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.support.site import wire
from tests.support.site.legacy_wire import VERSION
from tests.support.site.line_process import LineProcess
from tests.support.site.stack import CONCURRENCY, MANAGE, SETTINGS

PATIENCE: Final = 90.0
"""Seconds to wait for an answer. The first answers wait for a process, its tables and a worker on a busy machine."""

COMMAND: Final = (*MANAGE, "mcp", "stdio", "--settings", SETTINGS)

_numbers = count(1)


class StdioClient(LineProcess):
    """A client of the modern era."""

    def __init__(self, environment: Mapping[str, str], log: Path, option: str = CONCURRENCY) -> None:
        super().__init__([*COMMAND, option], environment, log, PATIENCE)

    def begin_speaking(self) -> None:
        """Send the first messages of the client's era. A modern client needs none."""

    def message(self, method: str, **params: Any) -> dict[str, Any]:
        """Return a request with a new id."""
        return wire.message(method, **params)

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return its id."""
        message = self.message(method, **params)
        self.send(message)
        return message["id"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """Send a `tools/call` and return its id."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def cancel(self, request_id: Any, reason: str) -> None:
        params = {"requestId": request_id, "reason": reason}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def result(self, request_id: Any) -> dict[str, Any]:
        """Return the result of a request. The response must be the next message."""
        message = self.receive()
        assert message.get("id") == request_id, message
        result: dict[str, Any] = message["result"]
        return result


class LegacyStdioClient(StdioClient):
    """A client of the newest revision that has a handshake."""

    def begin_speaking(self, version: str = VERSION) -> None:
        info = {"name": "acceptance", "version": "1"}
        opening = self.ask("initialize", protocolVersion=version, capabilities={"elicitation": {}}, clientInfo=info)
        assert self.result(opening)["protocolVersion"] == version
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def message(self, method: str, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": f"legacy-{next(_numbers)}", "method": method, "params": params}


ERAS: Final = {"modern": StdioClient, "legacy": LegacyStdioClient}
