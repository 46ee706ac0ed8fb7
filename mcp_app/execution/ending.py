"""How a run ended: what is written into its row, and what is kept of it where the site redacts.

The site's function is asked here, outside any transaction and after the tool's body: an interrupt cannot cut it, and of
a call that is to stop a kill still ends it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_app.lifecycle.events import storable
from mcp_app.lifecycle.redaction import Kind, is_configured, redact, redact_each
from mcp_app.states import Status


@dataclass(frozen=True, slots=True)
class Ending:
    """What is written into the row, and the unexpected exception that Celery is to keep."""

    status: Status
    result: dict[str, Any] | None = None
    partial_result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    raised: BaseException | None = None
    questions: Mapping[str, Any] = field(default_factory=dict)
    """What it asks of its client (INPUT_REQUIRED): an InputRequests object."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """What redaction leaves of result, partial result and error; where it asks, of each question."""

    @property
    def kept_error(self) -> dict[str, Any] | None:
        error: dict[str, Any] | None = self.kept.get("error", self.error)
        return error


def redacted(ending: Ending, tool: str) -> Ending:
    """The same ending, with what is kept of it."""
    if not is_configured():
        return ending
    if ending.questions:
        return replace(ending, kept=redact_each(Kind.QUESTION, tool, storable(dict(ending.questions))).kept)
    kept = {
        "result": redact(Kind.RESULT, tool, ending.result).kept,
        "partial_result": redact(Kind.PARTIAL_RESULT, tool, ending.partial_result).kept,
        "error": _error(ending.error, tool),
    }
    return replace(ending, kept=kept)


def _error(error: Mapping[str, Any] | None, tool: str) -> dict[str, Any] | None:
    """Its words, and a JSON-RPC error's data, are the author's; the rest is ours."""
    if error is None:
        return None
    told: dict[str, Any] = storable(dict(error))
    return {
        **told,
        **redact_each(Kind.ERROR, tool, {key: told[key] for key in ("message", "data") if key in told}).kept,
    }
