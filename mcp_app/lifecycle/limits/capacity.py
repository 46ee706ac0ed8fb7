"""Limits on open calls: compares what a caller has open, and how many calls wait for a worker, with the settings.

A call is open while it is queued or running; one that waits for input does not count.

The counts are over all processes, in one statement that reads indexes alone and never counts further than a limit. Each
count has the ORDER BY of its index; without it PostgreSQL may choose a bitmap scan, which visits an entry for each call
that has ended. Only if a limit seems to be reached are the rows read as well, to leave out tasks, which have a limit of
their own. Nothing is locked, so calls that are admitted at the same moment may together exceed a limit a little.

A caller with a credential is counted by its principal. All anonymous callers of an endpoint have the same principal,
so each is counted by its network (`Principal.network`), and all of them together may have `ANONYMOUS_LIMIT_FACTOR`
times as much as one.
"""

from enum import Enum, auto
from itertools import chain
from typing import Any, Final, NamedTuple

from django.db.models import QuerySet

from mcp_app import databases
from mcp_app.auth.principal import COLUMNS, Principal, is_anonymous, principal_key
from mcp_app.conf import settings
from mcp_app.models import Request
from mcp_app.states import Status

_OPEN = f"""
    SELECT 1 FROM {Request._meta.db_table} WHERE issuer = %s AND subject = %s AND client_id = %s AND endpoint = %s
    AND finished_at IS NULL AND status IN ('{Status.QUEUED}', '{Status.RUNNING}')
"""  # noqa: S608 - its names and values are constants of ours
_OWN = f"(SELECT COUNT(*) FROM ({_OPEN} AND network = %s ORDER BY status LIMIT %s) AS own)"  # noqa: S608
_TOGETHER = f"(SELECT COUNT(*) FROM ({_OPEN} ORDER BY network, status LIMIT %s) AS together)"  # noqa: S608
_WAITING = f"""(SELECT COUNT(*) FROM (
    SELECT 1 FROM {Request._meta.db_table} WHERE status = '{Status.QUEUED}' ORDER BY submitted_at LIMIT %s
) AS waiting)"""  # noqa: S608 - its names and values are constants of ours
COUNTS_SQL = f"{_OWN}, {_TOGETHER}, {_WAITING}"
"""The columns of a SELECT that make `Counts`. Its placeholders take `parameters(principal)`."""


class Counts(NamedTuple):
    """Numbers of open calls, or the limits on them."""

    own: int = 0
    """Open calls of the caller."""
    together: int = 0
    """Open calls of all anonymous callers of the endpoint. Used only if the caller is one."""
    waiting: int = 0
    """Calls of all callers that wait for a worker."""

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*map(sum, zip(self, other, strict=True)))


class ExceededLimit(Enum):
    """The limit that one more call would exceed."""

    CALLER = auto()
    """The caller's limit of open calls that are not tasks."""
    ANONYMOUS = auto()
    """The limit of all anonymous callers of an endpoint together."""
    QUEUE = auto()
    """The limit of calls that wait for a worker."""


def parameters(principal: Principal) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(_values(principal)))


def exceeded_limit(principal: Principal) -> ExceededLimit | None:
    """Return why the principal may not make one more call, or `None` if it may."""
    with databases.connection().cursor() as cursor:
        cursor.execute(f"SELECT {COUNTS_SQL}", parameters(principal))
        return evaluate(principal, Counts(*cursor.fetchone()))


def evaluate(
    principal: Principal,
    stored: Counts,
    pending: Counts = Counts(),  # noqa: B008 - immutable
) -> ExceededLimit | None:
    """Return why the principal may not make one more call, or `None`.

    `stored` counts the stored calls, tasks included, and `pending` the calls that are about to be stored. If a limit
    seems to be reached, a query counts again without tasks.
    """
    limits, count = _limits(principal), stored.plus(pending)
    own_filter, together_filter = columns(principal), principal.columns
    if count.own >= limits.own and _open_without_tasks(own_filter, limits.own) + pending.own >= limits.own:
        return ExceededLimit.CALLER
    if (
        principal.is_anonymous
        and count.together >= limits.together
        and _open_without_tasks(together_filter, limits.together) + pending.together >= limits.together
    ):
        return ExceededLimit.ANONYMOUS
    return ExceededLimit.QUEUE if count.waiting >= limits.waiting else None


def _values(principal: Principal) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return the parameters of each subquery of `COUNTS_SQL`."""
    limits, key = _limits(principal), principal_key(principal)
    return (*key, principal.network, limits.own), (*key, limits.together), (limits.waiting,)


def _limits(principal: Principal) -> Counts:
    """Return the limits; for a caller with a credential `together` is 0, so that nothing is counted."""
    own: int = settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL
    together = limit_together(own) if principal.is_anonymous else 0
    return Counts(own, together, settings.MAX_QUEUED_REQUESTS)


def _open_without_tasks(own_filter: dict[str, Any], at_most: int) -> int:
    """Return the number of open calls that are not tasks, at most `at_most`. It reads the rows."""
    open_calls = Request.objects.filter(**own_filter, status__in=(Status.QUEUED, Status.RUNNING), finished_at=None)
    return open_calls.filter(task_handle=None).order_by()[:at_most].count()


OWN_COLUMNS: Final = (*COLUMNS, "network")
"""The columns that the limits count a row by."""


def columns(caller: Any) -> dict[str, Any]:
    """Return the column values that select the rows that count against a caller's own limit."""
    return {name: getattr(caller, name) for name in OWN_COLUMNS}


def limit_together(at_most: int) -> int:
    """Return the limit for all anonymous callers of an endpoint if one caller may have `at_most`."""
    together: int = at_most * settings.ANONYMOUS_LIMIT_FACTOR
    return together


def has_room(caller: Any, rows: QuerySet[Any], at_most: int, *, more: int = 1) -> bool:
    """Return whether a caller may have `more` further rows. `rows` are the open rows of all callers.

    `caller` is a principal or one of its rows. The rows are counted in Python, because SQLite would scan all rows that
    this caller ever had.
    """
    open_rows = list(rows.values_list(*OWN_COLUMNS))
    if open_rows.count(tuple(columns(caller).values())) + more > at_most:
        return False
    if not is_anonymous(caller):
        return True
    together = sum(row[: len(COLUMNS)] == principal_key(caller) for row in open_rows)
    return bool(together + more <= limit_together(at_most))
