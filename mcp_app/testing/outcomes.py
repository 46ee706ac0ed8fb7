"""What comes of a call, as a test reads it: its result in short, what was told meanwhile, what was asked, its row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mcp_types

from mcp_app.models import Request
from mcp_app.states import Stage, Status


class MCPError(Exception):
    """A JSON-RPC error: there is no such tool, say, or not for this caller. `data` is None where there is none."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class Progress(NamedTuple):
    """One report of a tool's."""

    progress: float
    total: float | None
    message: str | None


class LogLine(NamedTuple):
    """One line of a tool's log, by `ctx.log` or the standard `logging`."""

    level: str
    message: Any
    logger: str | None


@dataclass(slots=True)
class Told:
    """What a call has told its client so far."""

    progress: list[Progress] = field(default_factory=list)
    log: list[LogLine] = field(default_factory=list)

    def add_progress(self, said: Mapping[str, Any]) -> None:
        self.progress.append(Progress(said["progress"], said.get("total"), said.get("message")))

    def add_log(self, said: Mapping[str, Any]) -> None:
        self.log.append(LogLine(said["level"], said.get("data"), said.get("logger")))

    def add_notifications(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Those of a call's stream; other messages are passed over."""
        for message in messages:
            if message.get("method") == "notifications/progress":
                self.add_progress(message["params"])
            elif message.get("method") == "notifications/message":
                self.add_log(message["params"])


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a tool returned, with how it got there."""

    result: mcp_types.CallToolResult
    told: Told
    asked: dict[str, dict[str, Any]]
    """Every InputRequest that the call made, by key: its `method` and `params`."""
    request: Request
    """Its row as it is now; a bare one, never stored, of a call whose arguments were refused."""
    would_be_killed: bool = False
    """Whether the tool went on beyond its hard grace: a worker would have killed it."""

    @property
    def text(self) -> str:
        """Its text, the blocks of it joined by line ends."""
        return "\n".join(block.text for block in self.result.content if isinstance(block, mcp_types.TextContent))

    @property
    def content(self) -> list[Any]:
        """Its content blocks."""
        return list(self.result.content)

    @property
    def structured(self) -> Any:
        """Its `structuredContent`."""
        return self.result.structured_content

    @property
    def is_error(self) -> bool:
        return bool(self.result.is_error)

    @property
    def progress(self) -> list[Progress]:
        """As its client was told: thinned where there was too much of it."""
        return self.told.progress

    @property
    def log(self) -> list[LogLine]:
        """As its client was told."""
        return self.told.log

    @property
    def cancelled(self) -> bool:
        return self.request.status == Status.CANCELLED

    @property
    def stage(self) -> Stage:
        """How far it had to be pushed to stop."""
        return Stage(self.request.stage)
