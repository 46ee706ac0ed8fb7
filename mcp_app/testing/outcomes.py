"""The outcome of a call, for a test to check: its result, its notifications, its questions and its row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mcp_types

from mcp_app.models import Request
from mcp_app.states import Stage, Status


class MCPError(Exception):
    """A JSON-RPC error, for example for an unknown tool, with its `code`, `message` and `data`.

    `data` is `None` if the error has none.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class Progress(NamedTuple):
    """A progress report of a tool. `total` and `message` are `None` if the tool gave none."""

    progress: float
    total: float | None
    message: str | None


class LogLine(NamedTuple):
    """A line of a tool's log, from `ctx.log` or the standard `logging`."""

    level: str
    message: Any
    logger: str | None


@dataclass(slots=True)
class Told:
    """The notifications that a call has sent to its client so far."""

    progress: list[Progress] = field(default_factory=list)
    log: list[LogLine] = field(default_factory=list)

    def add_progress(self, said: Mapping[str, Any]) -> None:
        self.progress.append(Progress(said["progress"], said.get("total"), said.get("message")))

    def add_log(self, said: Mapping[str, Any]) -> None:
        self.log.append(LogLine(said["level"], said.get("data"), said.get("logger")))

    def add_notifications(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Add the notifications of a call's stream. Other messages are ignored."""
        for message in messages:
            if message.get("method") == "notifications/progress":
                self.add_progress(message["params"])
            elif message.get("method") == "notifications/message":
                self.add_log(message["params"])


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a tool, with the notifications and questions before it."""

    result: mcp_types.CallToolResult
    told: Told
    asked: dict[str, dict[str, Any]]
    """Every InputRequest that the call made, by key: its `method` and `params`."""
    request: Request
    """The row of the call, as it was stored when the call ended. If its arguments did not fit,
    nothing was stored, and this is an empty row."""
    would_be_killed: bool = False
    """Whether the tool was still running after its hard grace, when a worker would have killed it.
    Always false with a `LiveClient`, whose worker kills."""

    @property
    def text(self) -> str:
        """The text of its content blocks, joined by newlines."""
        return "\n".join(block.text for block in self.result.content if isinstance(block, mcp_types.TextContent))

    @property
    def content(self) -> list[Any]:
        """The content blocks."""
        return list(self.result.content)

    @property
    def structured(self) -> Any:
        """The `structuredContent`."""
        return self.result.structured_content

    @property
    def is_error(self) -> bool:
        """Whether the result is an error that a model can read."""
        return bool(self.result.is_error)

    @property
    def progress(self) -> list[Progress]:
        """The progress reports that its client received. Frequent reports are thinned."""
        return self.told.progress

    @property
    def log(self) -> list[LogLine]:
        """The log lines that its client received."""
        return self.told.log

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled and its work has stopped."""
        return self.request.status == Status.CANCELLED

    @property
    def stage(self) -> Stage:
        """The last stage of stopping that the call needed."""
        return Stage(self.request.stage)
