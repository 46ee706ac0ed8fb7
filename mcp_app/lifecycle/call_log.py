"""One log record for each ended call, at INFO, by the logger `mcp_app.calls`: for whoever collects a site's logs.

The record has a sentence for people, and as its attribute `mcp_call` all of it for machines: formatters such as
python-json-logger's write that out. Refuses what the call was given and returned, which take a permission to be read.
"""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from mcp_app.lifecycle import lengths
from mcp_app.lifecycle.inert import inert
from mcp_app.lifecycle.lengths import Lengths
from mcp_app.models import Request
from mcp_app.states import Stage

logger = logging.getLogger("mcp_app.calls")

_TOLD: Final = ("tool", "status", "endpoint", "issuer", "subject", "client_id", "protocol_version", "queue")
COLUMNS: Final = frozenset(
    (*_TOLD, *lengths.COLUMNS, "principal_label", "submitted_at", "cancel_cause", "stage", "parent", "trace_context")
)
"""Of which a record is made."""


def tell(ended: Iterable[Request]) -> None:
    """Log these calls, which have ended."""
    if logger.isEnabledFor(logging.INFO):
        for row in ended:
            fields = describe(row)
            logger.info("%s", _sentence(row, fields), extra={"mcp_call": fields})


def describe(row: Request) -> dict[str, Any]:
    """The fields of a record: JSON-ready, times in ISO 8601, lengths in seconds, null where there is no such thing."""
    took = Lengths.of(row)
    return {
        "request": str(row.pk),
        **{name: getattr(row, name) for name in _TOLD},
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
    told = f"{_one_line(row.tool)} of {_one_line(row.principal_label)} {row.status}"
    if fields["cancel_cause"] is not None:
        told += f" ({row.cancel_cause}, stage {fields['stage']})"
    if fields["ran"] is not None:
        told += f" after {fields['ran']:.3f} s"
    return f"{told}, request {row.pk}"


def _one_line(text: str) -> str:
    return " ".join(inert(text).split())


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
