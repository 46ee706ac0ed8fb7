"""The standard `logging` inside a tool: its records reach the client that asked and the request's timeline.

One handler for each worker child, on the root logger and on Celery's task loggers, which keep their records from it. It
finds the call by its context: a record of a thread or task to which `contextvars` do not carry is nobody's. Refuses the
machinery's own records, those below `LOG_LEVEL`, and those that the site's configuration keeps from propagating.
"""

import logging
import os
from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from mcp_types import LoggingLevel

from mcp_app.catalogue.registry import registered_tools
from mcp_app.conf import settings
from mcp_app.execution.context import current_context
from mcp_app.lifecycle import redaction

MACHINERY: Final = frozenset(
    ("amqp", "asyncio", "billiard", "celery", "django.db.backends", "kombu", "mcp_app", "py.warnings", "vine")
)
"""Loggers that speak of the worker, of queries and of files, to the operator alone."""
THRESHOLDS: Final = (20, 25, 30, 40, 50)
LEVELS: Final[tuple[LoggingLevel, ...]] = ("debug", "info", "notice", "warning", "error", "critical")
"""The protocol's level below the first threshold, from the first on, from the second on, and so forth."""
MAX_ERROR_CHARS: Final = 500


class ToolLogHandler(logging.Handler):
    """Passes a record on as the tool's own `ToolContext.log` would."""

    def __init__(self, level: str) -> None:
        super().__init__(level)
        self._pid = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        # What a tool forks has no recorder, and maybe its lock, held for good.
        if os.getpid() != self._pid or _is_machinery(record.name) or redaction.is_under_way():
            return
        try:
            context = current_context()
        except LookupError:
            return
        try:
            context.log(protocol_level(record.levelno), text(record), logger_name=record.name)
        except Exception:
            self.handleError(record)


def install() -> Callable[[], None]:
    """Hear this process's tools; how to hear them no more.

    The loggers of their own packages that have no level are given `LOG_LEVEL`.
    """
    undo = ExitStack()
    handler = ToolLogHandler(settings.LOG_LEVEL)
    hearing = [logging.getLogger()]
    if not (tasks := logging.getLogger("celery.task")).propagate:
        hearing.append(tasks)
    for heard in hearing:
        heard.addHandler(handler)
        undo.callback(heard.removeHandler, handler)
    for tool in registered_tools().values():
        own = logging.getLogger(tool.function.__module__.partition(".")[0])
        if own.level == logging.NOTSET and own.getEffectiveLevel() > handler.level:
            own.setLevel(handler.level)
            undo.callback(own.setLevel, logging.NOTSET)
    return undo.close


def protocol_level(number: int) -> LoggingLevel:
    """The level of RFC 5424 for a level of `logging`."""
    return LEVELS[bisect_right(THRESHOLDS, number)]


def text(record: logging.LogRecord) -> str:
    """The message and, on a line of its own, the exception logged with it: its type and words, never its traceback."""
    message = record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    return message if error is None else f"{message}\n{type(error).__name__}: {_words(error)}"


def _words(error: BaseException) -> str:
    """One line; an OSError's without the path, which the author did not choose to tell."""
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return told.partition("\n")[0][:MAX_ERROR_CHARS]


def _is_machinery(name: str) -> bool:
    return name in MACHINERY or any(name.startswith(f"{owner}.") for owner in MACHINERY)
