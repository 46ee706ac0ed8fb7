"""The tools that a caller is offered: declarations joined with their rows and the caller's rights.

Theory of operation
-------------------

A tool is declared in code (`registry`). Its row, if it has one, overrides parts of the declaration:
title, description, cancel policy, times and queue. The site's settings supply the remaining
defaults. An `OfferedTool` is the result.

1. A tool without a row is offered as declared.
2. A tool whose row is disabled, or marked as no longer registered, is not offered.
3. A tool that requires permissions or groups is offered only to users who have them. Other callers
   cannot distinguish it from an unknown tool.
4. A scope that the caller's token lacks does not hide a tool. The call is challenged instead.

`find_tool` runs for every call. Its single query returns the row and the numbers of open calls, so
that a call beyond the limits is refused without another query. `store` then applies the limits of
the tool itself: `rate` is counted in Django's cache, `concurrency` in the database.

Functions that query the database block for one query, plus Django's queries for the permissions of
the caller if any tool in question requires some.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import declaration, paging
from mcp_app.catalogue.paging import ListPage
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.catalogue.tool_rows import SUBJECT
from mcp_app.conf import settings
from mcp_app.databases import Columns
from mcp_app.lifecycle.limits import call_rates, capacity, concurrency
from mcp_app.lifecycle.limits.call_rates import CallRate, UncountableError
from mcp_app.lifecycle.limits.capacity import Counts, ExceededLimit
from mcp_app.lifecycle.requests.submission import Submission, Terms
from mcp_app.models import Tool
from mcp_app.states import CancelPolicy


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as it is offered now: the declaration with the overrides of its row."""

    name: str
    title: str | None
    description: str
    registered: RegisteredTool
    cancel_policy: CancelPolicy
    cooperative_grace: float
    """Seconds from a cancellation to the interrupt."""
    hard_grace: float
    """Seconds from a cancellation to the kill."""
    time_limit: float
    """Seconds that it may run."""
    queue: str
    rate: CallRate | None
    """How often one caller may call it."""
    concurrency: int | None
    """How many calls of it one caller may have open."""

    @property
    def terms(self) -> Terms:
        """The properties of the tool that are stored with each call."""
        return Terms(
            tool=self.name,
            cancel_policy=self.cancel_policy,
            cooperative_grace=self.cooperative_grace,
            hard_grace=self.hard_grace,
            time_limit=self.time_limit,
            queue=self.queue,
        )

    def wire(self) -> dict[str, Any]:
        """Return the MCP Tool object (server/tools "Tool").

        Its schemas are shared: do not change them.
        """
        title = {} if self.title is None else {"title": self.title}
        return {"name": self.name, **title, "description": self.description, **self.registered.wire_members}


def offered(principal: Principal, names: frozenset[str] | None = None) -> list[OfferedTool]:
    """Return the tools that `principal` may call, sorted by name.

    `names`: an earlier result of `names_granted` for this principal, which saves checking the
    rights.
    """
    every = registered_tools().values()
    granted = declaration.granted(every, principal) if names is None else [tool for tool in every if tool.name in names]
    rows = Tool.objects.in_bulk()
    joined = (offer(tool, rows.get(tool.name)) for tool in sorted(granted, key=lambda tool: tool.name))
    return [tool for tool in joined if tool is not None]


def find(name: str, principal: Principal) -> OfferedTool | None:
    """Return the tool `name`, or `None` if it is not offered to `principal`."""
    if (tool := registered_tools().get(name)) is None or not tool.access.is_granted_to(principal):
        return None
    return offer(tool, Tool.objects.filter(pk=name).first())


def offer(tool: RegisteredTool, row: Tool | None) -> OfferedTool | None:
    """Join a tool that the caller may use with its row. Return `None` if the row withdraws it."""
    if row is None:
        return _offer(tool, _unsaid())
    return _offer(tool, row) if row.enabled and row.registered else None


def effective(row: Tool) -> OfferedTool | None:
    """Join `row`, saved or not, with its code, even if the row is disabled.

    Return `None` if this process has no such tool.
    """
    tool = registered_tools().get(row.name)
    return None if tool is None else _offer(tool, row)


def page(cursor: str | None, principal: Principal, names: frozenset[str] | None = None) -> ListPage:
    """Return the page of `offered` after `cursor`, or the first page. Raises `InvalidCursor`."""
    tools = offered(principal, names)
    return paging.page(paging.list_at(principal.endpoint, SUBJECT), tools, lambda tool: tool.name, cursor)


def place(cursor: str | None, principal: Principal) -> str | None:
    """Return the name after which the page of `cursor` begins, or `None` for the first page.

    Does not query the database. Raises `InvalidCursor`.
    """
    return None if cursor is None else paging.read(paging.list_at(principal.endpoint, SUBJECT), cursor)


def is_same_for_everybody(endpoint: str) -> bool:
    """Return whether all callers of an endpoint are offered the same tools.

    Does not query the database.
    """
    return not any(tool.access.is_limited and endpoint in tool.access.endpoints for tool in registered_tools().values())


def names_granted(principal: Principal) -> frozenset[str]:
    """Return the names of the tools that `principal` has the rights for, whether offered or not."""
    return frozenset(tool.name for tool in declaration.granted(registered_tools().values(), principal))


def _offer(tool: RegisteredTool, row: Tool) -> OfferedTool:
    return OfferedTool(
        name=tool.name,
        title=row.title or tool.title,
        description=row.description or tool.description,
        registered=tool,
        cancel_policy=CancelPolicy(row.cancel_policy or tool.cancel_policy),
        cooperative_grace=_first(row.cooperative_grace, tool.cooperative_grace, settings.COOPERATIVE_GRACE),
        hard_grace=_first(row.hard_grace, tool.hard_grace, settings.HARD_GRACE),
        time_limit=_first(row.time_limit, tool.time_limit, settings.DEFAULT_TIME_LIMIT),
        queue=row.queue or tool.queue or settings.QUEUE,
        rate=tool.rate or (None if settings.TOOL_RATE is None else CallRate.read(settings.TOOL_RATE)),
        concurrency=settings.TOOL_CONCURRENCY if tool.concurrency is None else tool.concurrency,
    )


@cache
def _unsaid() -> Tool:
    """Return a row that overrides nothing. Cached because creating a model instance is slow."""
    return Tool()


def _first(overridden: float | None, declared: float | None, default: float) -> float:
    """Return the first value that is not `None`; 0 counts as a value."""
    for seconds in (overridden, declared):
        if seconds is not None:
            return seconds
    return default


logger = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that prevents a call for now."""

    words: str
    """The message for the caller."""
    is_callers: bool = True
    """Whether the caller's own limit is reached, as opposed to one of the site."""
    retry_after: float | None = None
    """Seconds until the call may be accepted; `None` if unknown."""


_TOO_OFTEN: Final = "You are calling this tool too often; wait a moment."
TOO_MANY_AT_ONCE: Final = Excess("You have too many open calls of this tool; wait for one to end.")
NOT_COUNTED: Final = Excess(
    "The rate limit of this tool cannot be checked at the moment; try again shortly.", is_callers=False
)
_EXCESS_OF: Final = {
    ExceededLimit.CALLER: Excess("You have too many open calls; wait for one to end."),
    ExceededLimit.ANONYMOUS: Excess(
        "Too many calls of callers without a credential are open; try again in a moment.", is_callers=False
    ),
    ExceededLimit.QUEUE: Excess("Too many calls are waiting for a worker; try again in a moment.", is_callers=False),
}


def find_excess(principal: Principal) -> Excess | None:
    """Return the limit that prevents any further call of `principal`, or `None`."""
    return _to_excess(capacity.exceeded_limit(principal))


def _to_excess(exceeded_limit: ExceededLimit | None) -> Excess | None:
    """Return the `Excess` for an exceeded limit, or `None` if there is none."""
    return None if exceeded_limit is None else _EXCESS_OF[exceeded_limit]


def store(submission: Submission, tool: OfferedTool, as_ever: Callable[[Submission], R]) -> R | Excess:
    """Store a call if the limits of its tool allow it.

    Returns the result of `as_ever(submission)`, or the limit that was exceeded.
    """
    if (excess := _rate_excess(submission, tool)) is not None:
        return excess
    if tool.concurrency is None:
        return as_ever(submission)
    own = tool.registered.concurrency is not None
    stored = concurrency.submit(submission, tool.concurrency, as_ever, with_started=own)
    return TOO_MANY_AT_ONCE if stored is None else stored


def _rate_excess(submission: Submission, tool: OfferedTool) -> Excess | None:
    if tool.rate is None:
        return None
    who = call_rates.of_caller(submission.principal, tool.name)
    try:
        wait = call_rates.take(tool.rate, who, time.time())
    except UncountableError as error:
        logger.error("calls of %s are refused, because the cache cannot count them: %s", tool.name, error)
        return NOT_COUNTED
    return Excess(_TOO_OFTEN, retry_after=wait) if wait else None


_COLUMNS = Columns(Tool)
_SELECT = f"""
SELECT {capacity.COUNTS_SQL}, {", ".join(f"tool.{name}" for name in _COLUMNS.names)}
FROM (SELECT 1 AS one) AS here LEFT JOIN {Tool._meta.db_table} AS tool ON tool.name = %s
"""  # noqa: S608 - its names are constants of ours


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool that a caller is offered, and the numbers of open calls when it was read."""

    tool: OfferedTool
    counts: Counts

    def excess(self, principal: Principal, pending: Counts) -> Excess | None:
        """Return the exceeded limit, as `find_excess` does, from the counts in this object.

        `pending`: calls that are being stored now, and are not in the counts yet.
        """
        return _to_excess(capacity.evaluate(principal, self.counts, pending))


def find_tool(name: str, principal: Principal) -> FoundTool | None:
    """Find a tool, as `find` does, and count the open calls in the same query."""
    tool = registered_tools().get(name)
    if tool is None or not tool.access.is_granted_to(principal):
        return None
    parameters = (*capacity.parameters(principal), name)
    [(own, together, waiting, *values)] = databases.rows(databases.connection(), _SELECT, parameters)
    row = _COLUMNS.row(values)
    offered = offer(tool, None if row.pk is None else row)
    return None if offered is None else FoundTool(offered, Counts(own, together, waiting))
