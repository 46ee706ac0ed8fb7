"""What a site wants kept of what its calls are given and say: `MCP["REDACT"]`, asked before it is stored.

    def redact(kind: str, tool: str, value: Any) -> Any: ...

`kind` is a `Kind`, `value` a copy of its own, JSON-ready; for an object it returns an object, for a text a text. Never
asked inside a transaction: it may take its time, and use the database. Refuses to lose a call over it, and to let a
value out: where it raises or returns something else a marker is kept, and the log gets the kind of error and where.
"""

import copy
import json
import logging
import threading
import time
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.utils.module_loading import import_string

from mcp_app.conf import settings
from mcp_app.lifecycle.events import storable

logger = logging.getLogger(__name__)

MARKER: Final = "[not kept: its redaction failed]"
COMPLAIN_EVERY: Final = 1.0
"""Seconds: a tool may report progress a thousand times in one."""


class Kind(StrEnum):
    """What is about to be stored."""

    ARGUMENTS = "arguments"
    ANSWER = "answer"
    """To one question: an InputResponse, or what came for one."""
    VISIT = "visit"
    """What the user did on a page of the site (`Visit.done`)."""
    KEPT = "kept"
    """What the tool wanted done once (`ctx.once`)."""
    QUESTION = "question"
    """One InputRequest."""
    PROGRESS = "progress"
    """The message; the numbers are kept."""
    LOG = "log"
    RESULT = "result"
    """A CallToolResult."""
    PARTIAL_RESULT = "partial_result"
    ERROR = "error"
    """The words of an exception, or a JSON-RPC error's data."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A value, and what is kept of it: the value itself where nothing is left out."""

    value: Any
    kept: Any

    def __or__(self, other: "Redacted") -> "Redacted":
        """Of two objects, the members of both."""
        return Redacted({**self.value, **other.value}, {**self.kept, **other.kept})


class UnusableAnswerError(Exception):
    """The site's function returned what cannot stand for what it was given; the text says what it was."""


class RedactedError(Exception):
    """Another exception, in the words that the site lets be logged and kept."""


_asking: ContextVar[bool] = ContextVar("mcp_app_redaction", default=False)


def is_configured() -> bool:
    return settings.REDACT is not None


def is_under_way() -> bool:
    """Whether this code is called by the site's function: what that says is nobody's log line."""
    return _asking.get()


def redact(kind: Kind, tool: str, value: Any) -> Redacted:
    """A JSON-ready value and what is kept of it. Of nothing (null, an empty text or object) that is kept."""
    if settings.REDACT is None or value in (None, "", {}):
        return Redacted(value, value)
    kept = _marker(value) if _asking.get() else _asked(kind, tool, value)
    return Redacted(value, value if kept == value else kept)


def redact_each(kind: Kind, tool: str, values: Mapping[str, Any]) -> Redacted:
    """The same for each member of an object."""
    if settings.REDACT is None:
        return Redacted(values, values)
    return Redacted(values, {key: redact(kind, tool, value).kept for key, value in values.items()})


def tellable(error: BaseException, tool: str) -> BaseException:
    """An exception that may quote values, for a log: with a redaction in words that it lets pass, and without those
    that it came from."""
    if settings.REDACT is None:
        return error
    try:
        words = redact(Kind.ERROR, tool, storable(str(error))).kept
    except Exception:  # an author's exception may raise when it is to tell what it is
        words = MARKER
    return RedactedError(f"{type(error).__name__}: {words}").with_traceback(error.__traceback__)


def quotable(said: str) -> str:
    """What a client said, for a log: with a redaction nothing of it, as the site's function is not asked here."""
    return "(withheld)" if is_configured() else said


def wordless(error: BaseException) -> BaseException:
    """The same without any words: for event loops, where the site's function is not asked."""
    return RedactedError(type(error).__name__).with_traceback(error.__traceback__) if is_configured() else error


def _asked(kind: Kind, tool: str, value: Any) -> Any:
    try:
        _asking.set(True)
        return _fit(import_string(settings.REDACT)(kind.value, tool, copy.deepcopy(value)), value)
    except Exception as error:
        _complaint.make(error, kind, tool)
        return _marker(value)
    finally:
        _asking.set(False)


def _fit(answer: Any, value: Any) -> Any:
    """The answer as JSON. Raises what says that it is none, or none for this value."""
    for kind in (dict, str):
        if isinstance(value, kind) and not isinstance(answer, kind):
            raise UnusableAnswerError(f"it returned a {type(answer).__name__} for a {kind.__name__}")
    return storable(json.loads(json.dumps(answer, allow_nan=False)))


def _marker(value: Any) -> Any:
    return {"redacted": MARKER} if isinstance(value, dict) else MARKER


class _Complaint:
    """What the log is told of a function that fails, now and then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_at = 0.0

    def make(self, error: Exception, kind: Kind, tool: str) -> None:
        with self._lock:
            if time.monotonic() < self._next_at:
                return
            self._next_at = time.monotonic() + COMPLAIN_EVERY
        name = type(error).__name__
        told = f"{name}: {error}" if isinstance(error, UnusableAnswerError) else name
        where = "".join(traceback.format_tb(error.__traceback__))
        logger.error("the redaction %s of %s (%s) failed with %s\n%s", settings.REDACT, kind, tool, told, where)


_complaint = _Complaint()
