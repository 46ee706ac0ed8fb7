"""A client that starts `mcp stdio` as its own process and talks to it in lines; its standard error goes to a file."""

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.acceptance import wire
from tests.acceptance.inspector import ROOT
from tests.acceptance.legacy_wire import VERSION
from tests.acceptance.stack import CONCURRENCY, MANAGE, SETTINGS

PATIENCE: Final = 90.0
"""Seconds for an answer: the first ones wait for a process, its tables and a worker, on a machine that is busy."""

COMMAND: Final = (*MANAGE, "mcp", "stdio", "--settings", SETTINGS)

_numbers = count(1)


class StdioClient:
    """A client of the modern era."""

    def __init__(self, environment: Mapping[str, str], log: Path, option: str = CONCURRENCY) -> None:
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*COMMAND, option],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def begin_speaking(self) -> None:
        """Whatever its era begins with."""

    def message(self, method: str, **params: Any) -> dict[str, Any]:
        """A request with an id of its own."""
        return wire.message(method, **params)

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request; its id."""
        message = self.message(method, **params)
        self.send(message)
        return message["id"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """Send a `tools/call`; its id."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def cancel(self, request_id: Any, reason: str) -> None:
        params = {"requestId": request_id, "reason": reason}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def receive(self) -> dict[str, Any]:
        """The next message."""
        message = self.receive_within(PATIENCE)
        assert message is not None, f"there is no message:\n{self.log.read_text()}"
        return message

    def receive_within(self, seconds: float) -> dict[str, Any] | None:
        """The next message; None where none comes for so long."""
        try:
            line = self._lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        assert line, f"the server ended:\n{self.log.read_text()}"
        message: dict[str, Any] = json.loads(line)
        return message

    def result(self, request_id: Any) -> dict[str, Any]:
        """The result of a request, which must be the next message."""
        message = self.receive()
        assert message.get("id") == request_id, message
        result: dict[str, Any] = message["result"]
        return result

    def rest(self) -> list[dict[str, Any]]:
        """Every message that still comes, until the server has closed its end."""
        messages = []
        while line := self._lines.get(timeout=PATIENCE):
            messages.append(json.loads(line))
        return messages

    def close(self) -> None:
        """Close standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit status, once it has ended."""
        status = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return status

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")


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
