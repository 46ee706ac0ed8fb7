"""One log record for each ended call: logger `mcp_app.calls`, level INFO.

The message is a sentence for people. The attribute `mcp_call` of the record is a dictionary for
programs, which formatters such as python-json-logger's write out. A record leaves
out the call's arguments and result, because only users with a permission may read them.
"""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from mcp_app.lifecycle.statistics import durations
from mcp_app.lifecycle.statistics.durations import Durations
from mcp_app.models import Request
from mcp_app.safe_text import safe_text
from mcp_app.states import Stage

logger = logging.getLogger("mcp_app.calls")

_COPIED: Final = ("tool", "status", "endpoint", "issuer", "subject", "client_id", "protocol_version", "queue")
COLUMNS: Final = frozenset(
    {*_COPIED, *durations.COLUMNS, "principal_label", "submitted_at"}
    | {"cancel_cause", "stage", "parent", "trace_context"}
)
"""The columns that the rows passed to `log_calls` must have loaded."""


def log_calls(ended: Iterable[Request]) -> None:
    """Log these ended calls."""
    if logger.isEnabledFor(logging.INFO):
        for row in ended:
            fields = describe(row)
            logger.info("%s", _sentence(row, fields), extra={"mcp_call": fields})


def describe(row: Request) -> dict[str, Any]:
    """Return the fields of a record as JSON values: times in ISO 8601, durations in seconds.

    Times, durations, cause, stage and parent that do not apply to the call are `None`.
    """
    took = Durations.of(row)
    return {
        "request": str(row.pk),
        **{name: getattr(row, name) for name in _COPIED},
        "caller": row.principal_label,
        "submitted_at": _moment(row.submitted_at),
        "finished_at": _moment(row.finished_at),
        "waited": took.wait,
        "ran": took.run,
        "cancel_cause": row.cancel_cause or None,
        "stage": Stage(row.stage).name.lower() if row.cancel_cause else None,
        "stopped_after": took.stop,
        "parent": None if row.parent is None else str(row.parent),
        "traceparent": row.trace_context.get("traceparent"),
    }


def _sentence(row: Request, fields: dict[str, Any]) -> str:
    sentence = f"{_one_line(row.tool)} of {_one_line(row.principal_label)} {row.status}"
    if fields["cancel_cause"] is not None:
        sentence += f" ({row.cancel_cause}, stage {fields['stage']})"
    if fields["ran"] is not None:
        sentence += f" after {fields['ran']:.3f} s"
    return f"{sentence}, request {row.pk}"


def _one_line(text: str) -> str:
    return " ".join(safe_text(text).split())


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
