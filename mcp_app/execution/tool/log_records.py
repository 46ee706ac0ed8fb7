"""Send records of the standard `logging` from inside a tool to the client and the request's
timeline.

Each process has one handler, on the root logger and on Celery's task logger if that does not
propagate. It finds the call by its `ContextVar`, so records of threads and tasks without the call's
context are ignored. So are records of this machinery, records below `LOG_LEVEL`, and records of
loggers that the site has configured not to propagate.
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
from mcp_app.execution.tool.context import current_context
from mcp_app.lifecycle import redaction

MACHINERY: Final = frozenset(
    ("amqp", "asyncio", "billiard", "celery", "django.db.backends", "kombu", "mcp_app", "py.warnings", "vine")
)
"""Loggers whose records are about the worker, queries or files. They are for the operator only."""
THRESHOLDS: Final = (20, 25, 30, 40, 50)
LEVELS: Final[tuple[LoggingLevel, ...]] = ("debug", "info", "notice", "warning", "error", "critical")
"""The protocol's level below the first threshold, then from each threshold on."""
MAX_ERROR_CHARS: Final = 500


class ToolLogHandler(logging.Handler):
    """Passes a record to `ToolContext.log`."""

    def __init__(self, level: str) -> None:
        super().__init__(level)
        self._pid = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        # A process that a tool forks has no recorder thread, and perhaps a copy of its taken lock.
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
    """Install the handler in this process. Return a function that removes it.

    The loggers of the tools' own packages get `LOG_LEVEL` if they have no level.
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
    """Return the level of RFC 5424 for a level of `logging`."""
    return LEVELS[bisect_right(THRESHOLDS, number)]


def text(record: logging.LogRecord) -> str:
    """Return the message, and on a second line the logged exception without its traceback."""
    message = record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    return message if error is None else f"{message}\n{type(error).__name__}: {_words(error)}"


def _words(error: BaseException) -> str:
    """Return the first line of an exception's message. For an `OSError`, leave out the path."""
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return told.partition("\n")[0][:MAX_ERROR_CHARS]


def _is_machinery(name: str) -> bool:
    return name in MACHINERY or any(name.startswith(f"{owner}.") for owner in MACHINERY)
