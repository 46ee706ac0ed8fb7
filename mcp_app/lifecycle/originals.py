"""What redaction leaves out, for as long as a call cannot do without: to run with it, or to be answered with it.

It lies in a column of its own, which no page, export or command reads. Its end clears it, but for the result that is
still to be told; that goes once it was handed over, or nobody may ask for it any more. Refuses to keep what equals what
is kept.
"""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from mcp_app.conf import settings
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.redaction import Kind, Redacted, is_configured, redact_each
from mcp_app.models import Request
from mcp_app.states import TERMINAL

BATCH = 500


def of(row: Request, column: str) -> Redacted:
    """A column as it is needed and as it is kept."""
    return Redacted(row.original(column), getattr(row, column))


def redact_for(request_id: UUID, kind: Kind, values: Mapping[str, Any]) -> Redacted:
    """What comes for a stored request, by its tool's name."""
    if not values or not is_configured():
        return Redacted(values, values)
    tool = Request.objects.values_list("tool", flat=True).filter(pk=request_id).first()
    return redact_each(kind, tool or "", values)


def columns(row: Request | None, **values: Redacted) -> dict[str, Any]:
    """The columns that store these values in a row (None: a new one), which this transaction has locked."""
    held = {} if row is None else dict(row.originals or {})
    redacted = set() if row is None else set(row.redacted)
    for name, value in values.items():
        held.pop(name, None)
        if value.kept != value.value:
            held[name] = value.value
            redacted.add(name)
    kept = {name: value.kept for name, value in values.items()}
    return {**kept, "originals": held or None, "redacted": sorted(redacted)}


def columns_at_end(row: Request, *told: str, **values: Redacted) -> dict[str, Any]:
    """The same for a row that ends: of what it held nothing is needed any more but what is `told` its client."""
    stored = columns(row, **values)
    held = stored["originals"] or {}
    return {**stored, "originals": {name: held[name] for name in told if name in held} or None}


def forget_delivered(request_ids: Collection[UUID]) -> None:
    """Let go of what was handed over and cannot be asked for again."""
    if is_configured():
        once = Request.objects.filter(session__isnull=True, task_handle__isnull=True, parent__isnull=True)
        once.filter(pk__in=request_ids, status__in=TERMINAL, originals__isnull=False).update(originals=None)


def forget_unclaimed() -> None:
    """Let go of what nobody came for in time, or may come for any more. A step of supervision."""
    held = Request.objects.filter(originals__isnull=False, finished_at__lt=from_now(-settings.ABANDONED_AFTER))
    unasked = held.filter(Q(task_handle__isnull=True) | Q(task_expires_at__lt=from_now(0)))
    over = unasked.exclude(Exists(Request.objects.filter(pk=OuterRef("parent"), finished_at=None)))
    if ids := list(over.order_by("finished_at").values_list("pk", flat=True)[:BATCH]):
        Request.objects.filter(pk__in=ids).update(originals=None)
