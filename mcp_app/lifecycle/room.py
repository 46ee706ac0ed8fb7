"""Whether there is room for one more call: what a caller has open, and how many wait for a worker, in all processes.

One statement, written out because every call pays for it; it counts on indexes alone, never further than a limit. Both
counts are in their index's order, as PostgreSQL's scan of a bitmap would come by every entry that a finished call has
left. Refuses to lock: calls that are admitted at one moment may together go a little beyond it.
"""

from enum import Enum, auto
from typing import Any

from mcp_app import databases
from mcp_app.auth.principal import Principal, key_of
from mcp_app.conf import settings
from mcp_app.lifecycle.columns import Condition
from mcp_app.models import Request
from mcp_app.states import Status

_OWN = f"""(SELECT COUNT(*) FROM (
    SELECT 1 FROM {Request._meta.db_table} WHERE issuer = %s AND subject = %s AND client_id = %s AND endpoint = %s
    AND finished_at IS NULL AND status IN ('{Status.QUEUED}', '{Status.RUNNING}') ORDER BY status LIMIT %s
) AS own)"""  # noqa: S608 - its names and values are constants of ours
_WAITING = f"""(SELECT COUNT(*) FROM (
    SELECT 1 FROM {Request._meta.db_table} WHERE status = '{Status.QUEUED}' ORDER BY submitted_at LIMIT %s
) AS waiting)"""  # noqa: S608 - its names and values are constants of ours
COUNTS = f"{_OWN}, {_WAITING}"
"""Two columns of a SELECT: what a caller has open, what waits. Their values are `parameters`."""


class Lack(Enum):
    """What there is no room in."""

    CALLER = auto()
    """As many calls of its own as a caller may have open; tasks have a limit of their own."""
    QUEUE = auto()
    """As many calls of all as may wait for a worker."""


def parameters(principal: Principal) -> tuple[Any, ...]:
    return (*key_of(principal), settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL, settings.MAX_QUEUED_REQUESTS)


def is_left(principal: Principal) -> Condition:
    """That there is room beyond doubt: a caller who has many tasks may have some without that."""
    own, waiting = settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL, settings.MAX_QUEUED_REQUESTS
    return Condition(f"{_OWN} < %s AND {_WAITING} < %s", (*key_of(principal), own, own, waiting, waiting))


def lack(principal: Principal) -> Lack | None:
    """What keeps one more call of the principal's out."""
    with databases.connection().cursor() as cursor:
        cursor.execute(f"SELECT {COUNTS}", parameters(principal))
        own, queued = cursor.fetchone()
    return judged(principal, own, queued)


def judged(principal: Principal, own: int, queued: int, *, beside: int = 0) -> Lack | None:
    """The same, from the two counts; `beside`: how many of the caller's are counted and not stored yet."""
    open_at_most = settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL
    if own >= open_at_most and _waited_for(principal, open_at_most) + beside >= open_at_most:
        return Lack.CALLER
    return Lack.QUEUE if queued >= settings.MAX_QUEUED_REQUESTS else None


def _waited_for(principal: Principal, at_most: int) -> int:
    """How many of the caller's calls are no tasks: their rows say so, and no index."""
    being_done = Request.objects.filter(
        **principal.columns, status__in=(Status.QUEUED, Status.RUNNING), finished_at=None
    )
    return being_done.filter(task_handle=None).order_by()[:at_most].count()
