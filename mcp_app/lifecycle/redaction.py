"""Calls the site's function that redacts values before they are stored: `MCP["REDACT"]`.

    def redact(kind: str, tool: str, value: Any) -> Any: ...

1. `kind` is a `PayloadKind`, and `value` a JSON-ready copy. The function returns an object for an object, and a string
   for a string.
2. It is never called in a transaction, because it may be slow and may use the database.
3. If it raises or returns something else, a marker is stored instead of the value. The call goes on. The log gets the
   type of the exception and its traceback, without its text.
4. While a call needs the original value, to run or to be answered, it is kept in the column `unredacted`. No page,
   export or command reads that column. The end of the call clears it, except for a result that is not delivered yet.
"""

import copy
import json
import logging
import threading
import time
import traceback
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.utils.module_loading import import_string

from mcp_app.conf import settings
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.models import Request
from mcp_app.states import TERMINAL

logger = logging.getLogger(__name__)

MARKER: Final = "[not kept: its redaction failed]"
ERROR_INTERVAL_SECONDS: Final = 1.0
"""Time between two log lines about a failing function: a tool may report progress a thousand times a second."""


class PayloadKind(StrEnum):
    """The kind of a value that is about to be stored."""

    ARGUMENTS = "arguments"
    ANSWER = "answer"
    """The answer to one question: an InputResponse, or a malformed one."""
    VISIT = "visit"
    """The user's action on a page of the site (`Visit.done`)."""
    KEPT = "kept"
    """The result of a step that runs once (`ctx.once`)."""
    QUESTION = "question"
    """An InputRequest."""
    PROGRESS = "progress"
    """The message of a progress report. The numbers are always stored."""
    LOG = "log"
    RESULT = "result"
    """A CallToolResult."""
    PARTIAL_RESULT = "partial_result"
    ERROR = "error"
    """The text of an exception, or the data of a JSON-RPC error."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A value, and the value to store, which is the same if nothing is redacted."""

    value: Any
    kept: Any

    def __or__(self, other: "Redacted") -> "Redacted":
        """Return the members of both objects."""
        return Redacted({**self.value, **other.value}, {**self.kept, **other.kept})


class UnusableRedactionError(Exception):
    """The site's function returned a value of the wrong type."""


class RedactedError(Exception):
    """Stands for another exception, with the text that may be logged and stored."""


_asking: ContextVar[bool] = ContextVar("mcp_app_redaction", default=False)


def is_configured() -> bool:
    return settings.REDACT is not None


def is_under_way() -> bool:
    """Whether the caller runs inside the site's function, whose own log lines must not be stored."""
    return _asking.get()


def redact(kind: PayloadKind, tool: str, value: Any) -> Redacted:
    """Redact a JSON-ready value. Empty values are stored as they are."""
    if settings.REDACT is None or value in (None, "", {}):
        return Redacted(value, value)
    kept = _marker(value) if _asking.get() else _asked(kind, tool, value)
    return Redacted(value, value if kept == value else kept)


def redact_each(kind: PayloadKind, tool: str, values: Mapping[str, Any]) -> Redacted:
    """Redact each member of an object."""
    if settings.REDACT is None:
        return Redacted(values, values)
    return Redacted(values, {key: redact(kind, tool, value).kept for key, value in values.items()})


def loggable_error(error: BaseException, tool: str) -> BaseException:
    """Return an exception that may be logged. If redaction is configured, its text is redacted and its causes are
    removed."""
    if settings.REDACT is None:
        return error
    try:
        words = redact(PayloadKind.ERROR, tool, storable(str(error))).kept
    except Exception:  # the exception of an author may raise in `__str__`
        words = MARKER
    return RedactedError(f"{type(error).__name__}: {words}").with_traceback(error.__traceback__)


def loggable_text(said: str) -> str:
    """Return a client's text for the log, or a placeholder if redaction is configured."""
    return "(withheld)" if is_configured() else said


def error_without_text(error: BaseException) -> BaseException:
    """Return an exception that may be logged, without its text if redaction is configured.

    For event loops, in which the site's function must not be called.
    """
    return RedactedError(type(error).__name__).with_traceback(error.__traceback__) if is_configured() else error


def _asked(kind: PayloadKind, tool: str, value: Any) -> Any:
    try:
        _asking.set(True)
        return _fit(import_string(settings.REDACT)(kind.value, tool, copy.deepcopy(value)), value)
    except Exception as error:
        _complaint.make(error, kind, tool)
        return _marker(value)
    finally:
        _asking.set(False)


def _fit(answer: Any, value: Any) -> Any:
    """Return the function's answer as JSON. Raises an exception if it does not fit the value."""
    for kind in (dict, str):
        if isinstance(value, kind) and not isinstance(answer, kind):
            raise UnusableRedactionError(f"it returned a {type(answer).__name__} for a {kind.__name__}")
    return storable(json.loads(json.dumps(answer, allow_nan=False)))


def _marker(value: Any) -> Any:
    return {"redacted": MARKER} if isinstance(value, dict) else MARKER


class _Complaint:
    """Logs that the function fails, at most once in `ERROR_INTERVAL_SECONDS`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_at = 0.0

    def make(self, error: Exception, kind: PayloadKind, tool: str) -> None:
        with self._lock:
            if time.monotonic() < self._next_at:
                return
            self._next_at = time.monotonic() + ERROR_INTERVAL_SECONDS
        name = type(error).__name__
        told = f"{name}: {error}" if isinstance(error, UnusableRedactionError) else name
        where = "".join(traceback.format_tb(error.__traceback__))
        logger.error("the redaction %s of %s (%s) failed with %s\n%s", settings.REDACT, kind, tool, told, where)


_complaint = _Complaint()


BATCH = 500


def of(row: Request, column: str) -> Redacted:
    """Return the original and the stored value of a column."""
    return Redacted(row.unredacted_value(column), getattr(row, column))


def redact_for(request_id: UUID, kind: PayloadKind, values: Mapping[str, Any]) -> Redacted:
    """Redact values for a stored request, whose tool's name is looked up."""
    if not values or not is_configured():
        return Redacted(values, values)
    tool = Request.objects.values_list("tool", flat=True).filter(pk=request_id).first()
    return redact_each(kind, tool or "", values)


def columns(row: Request | None, **values: Redacted) -> dict[str, Any]:
    """Return the columns that store these values in a row. `row` is locked by the caller, or `None` for a new one."""
    held = {} if row is None else dict(row.unredacted or {})
    redacted = set() if row is None else set(row.redacted)
    for name, value in values.items():
        held.pop(name, None)
        if value.kept != value.value:
            held[name] = value.value
            redacted.add(name)
    kept = {name: value.kept for name, value in values.items()}
    return {**kept, "unredacted": held or None, "redacted": sorted(redacted)}


def columns_at_end(row: Request, *needed: str, **values: Redacted) -> dict[str, Any]:
    """Return the columns that store these values in a row that ends.

    Of all original values, only those named in `needed` are kept, because the client still needs them.
    """
    stored = columns(row, **values)
    held = stored["unredacted"] or {}
    return {**stored, "unredacted": {name: held[name] for name in needed if name in held} or None}


def forget_delivered(request_ids: Collection[UUID]) -> None:
    """Delete the original values of results that were delivered and cannot be requested again."""
    if is_configured():
        once = Request.objects.filter(session__isnull=True, task_handle__isnull=True, parent__isnull=True)
        once.filter(pk__in=request_ids, status__in=TERMINAL, unredacted__isnull=False).update(unredacted=None)


def forget_unclaimed() -> None:
    """Delete the original values of results that no client has fetched in time. This is a step of supervision."""
    held = Request.objects.filter(unredacted__isnull=False, finished_at__lt=from_now(-settings.ABANDONED_AFTER))
    unasked = held.filter(Q(task_handle__isnull=True) | Q(task_expires_at__lt=from_now(0)))
    over = unasked.exclude(Exists(Request.objects.filter(pk=OuterRef("parent"), finished_at=None)))
    if ids := list(over.order_by("finished_at").values_list("pk", flat=True)[:BATCH]):
        Request.objects.filter(pk__in=ids).update(unredacted=None)
