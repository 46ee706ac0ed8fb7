"""The test's side of a conversation with a driver: a small program in the client's own language, in `drivers/`.

What the two say to each other is told in `drivers/lines.mjs`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.support.site.line_process import LineProcess

PATIENCE: Final = 60.0
"""Seconds for an answer: the first may wait for a client and a server to start, on a machine that is busy."""

Message = dict[str, Any]


class ClientError(AssertionError):
    """The client could not do what it was asked; the text is its error's."""


class Driver:
    """A client that is connected, in a process of its own. What it has told is kept in `told`."""

    def __init__(
        self, command: Sequence[str], connection: Mapping[str, Any], environment: Mapping[str, str], log: Path
    ) -> None:
        self._process = LineProcess([*command, json.dumps(connection)], environment, log, PATIENCE)
        self._numbers = count(1)
        self._unanswered: set[int] = set()
        self.told: list[Message] = []
        self.version: str = self.hear(lambda message: "opened" in message)["opened"]["version"]

    def begin(self, action: str, **details: Any) -> int:
        """Ask for something; the number by which its answer is known."""
        number = next(self._numbers)
        self._process.send({"id": number, "do": action, "with": details})
        self._unanswered.add(number)
        return number

    def cancel(self, number: int, reason: str) -> None:
        """Have the client give up what it was asked for, in its own way."""
        self._process.send({"id": next(self._numbers), "do": "cancel", "with": {"of": number, "reason": reason}})

    def hear(self, wanted: Callable[[Message], bool], since: int = 0) -> Message:
        """The first such message among those told, but for the first `since` of them; waited for."""
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
        """What came of it. Raises ClientError."""
        message = self.hear(lambda message: message.get("id") == number)
        if "error" in message:
            raise ClientError(message["error"])
        return message["value"]

    def ask(self, action: str, **details: Any) -> Any:
        """Ask for something and wait for it. Raises ClientError."""
        return self.answer(self.begin(action, **details))

    def call(self, tool: str, **arguments: Any) -> Message:
        """A tool's result: `text`, `structured`, `isError`. Raises ClientError."""
        result: Message = self.ask("call", tool=tool, arguments=arguments)
        return result

    @property
    def is_idle(self) -> bool:
        """Whether everything that it was asked for has been answered."""
        return not self._unanswered

    def errors(self) -> str:
        """The end of what it, and a server that it started, said on standard error."""
        return self._process.errors()

    def reap(self) -> None:
        """Wait for the end of the process, which somebody else may have ended."""
        self._process.wait()

    def leave(self) -> int:
        """Have the client leave as clients do, whatever it is doing; the driver's exit status."""
        self._process.close()
        self.told += self._process.rest()
        return self._process.wait()
