"""A client that starts `mcp stdio` as its own process and talks to it in lines."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.acceptance import wire
from tests.acceptance.line_process import LineProcess
from tests.acceptance.stack import CONCURRENCY, MANAGE, SETTINGS

PATIENCE: Final = 90.0
"""Seconds for an answer: the first ones wait for a process, its tables and a worker, on a machine that is busy."""

COMMAND: Final = (*MANAGE, "mcp", "stdio", "--settings", SETTINGS)


class StdioClient(LineProcess):
    def __init__(self, environment: Mapping[str, str], log: Path, option: str = CONCURRENCY) -> None:
        super().__init__([*COMMAND, option], environment, log, PATIENCE)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Send a `tools/call`; its id."""
        message = wire.call(tool, **arguments)
        self.send(message)
        return message["id"]

    def cancel(self, request_id: Any, reason: str) -> None:
        params = {"requestId": request_id, "reason": reason}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def result(self, request_id: Any) -> dict[str, Any]:
        """The result of a request, which must be the next message."""
        message = self.receive()
        assert message.get("id") == request_id, message
        result: dict[str, Any] = message["result"]
        return result
