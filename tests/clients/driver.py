"""The test's side of the protocol between tests and drivers.

A driver is a small program in the client's own language, in `drivers/`. `drivers/lines.mjs` describes the protocol.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.support.site.line_process import LineProcess

PATIENCE: Final = 60.0
"""Seconds to wait for a reply. The first may wait for a client and a server to start on a busy machine."""

Message = dict[str, Any]


class ClientError(AssertionError):
    """The client's action failed. The message is the client's error."""


class Driver:
    """A connected client in a process of its own. `told` contains all messages from it."""

    def __init__(
        self, command: Sequence[str], connection: Mapping[str, Any], environment: Mapping[str, str], log: Path
    ) -> None:
        self._process = LineProcess([*command, json.dumps(connection)], environment, log, PATIENCE)
        self._numbers = count(1)
        self._unanswered: set[int] = set()
        self.told: list[Message] = []
        self.version: str = self.hear(lambda message: "opened" in message)["opened"]["version"]

    def begin(self, action: str, **details: Any) -> int:
        """Start an action, and return the number that identifies its reply."""
        number = next(self._numbers)
        self._process.send({"id": number, "do": action, "with": details})
        self._unanswered.add(number)
        return number

    def cancel(self, number: int, reason: str) -> None:
        """Make the client cancel an action in its own way."""
        self._process.send({"id": next(self._numbers), "do": "cancel", "with": {"of": number, "reason": reason}})

    def hear(self, wanted: Callable[[Message], bool], since: int = 0) -> Message:
        """Wait for the first wanted message, and return it. The first `since` messages of `told` are skipped."""
        for message in self.told[since:]:
            if wanted(message):
                return message
        while True:
            message = self._process.receive()
            self.told.append(message)
            self._unanswered.discard(message.get("id", 0))
            if wanted(message):
                return message

    def answer(self, number: int) -> Any:
        """Return the result of an action. Raises `ClientError`."""
        message = self.hear(lambda message: message.get("id") == number)
        if "error" in message:
            raise ClientError(message["error"])
        return message["value"]

    def ask(self, action: str, **details: Any) -> Any:
        """Perform an action, and return its result. Raises `ClientError`."""
        return self.answer(self.begin(action, **details))

    def call(self, tool: str, **arguments: Any) -> Message:
        """Call a tool, and return its `text`, `structured` and `isError`. Raises `ClientError`."""
        result: Message = self.ask("call", tool=tool, arguments=arguments)
        return result

    @property
    def is_idle(self) -> bool:
        """Whether every action has a reply."""
        return not self._unanswered

    def errors(self) -> str:
        """Return the end of the standard error output of the client, and of a server that it started."""
        return self._process.errors()

    def reap(self) -> None:
        """Wait for the end of the process, which may have been killed."""
        self._process.wait()

    def leave(self) -> int:
        """Make the client leave as clients do, even during a call, and return the driver's exit status."""
        self._process.close()
        self.told += self._process.rest()
        return self._process.wait()
