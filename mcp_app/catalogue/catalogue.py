"""What is offered, to whom: the tools of this process joined with their rows and the caller's rights.

Every function blocks on the database: for one query, and where a tool takes permissions for those of its caller. A tool
that is disabled, or whose row says that its code went away, is not offered; one without a row is offered as its code
says. One that takes a permission or a group is offered to those who have it; a scope that a token lacks hides nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import paging, rights
from mcp_app.catalogue.paging import Page
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.catalogue.rows import SUBJECT
from mcp_app.conf import settings
from mcp_app.lifecycle.call_rates import CallRate
from mcp_app.lifecycle.submission import Terms
from mcp_app.models import Tool
from mcp_app.states import CancelPolicy


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as it is offered now: the code's word, or its row's where an administrator overrode it."""

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
        """What a call of it takes from it."""
        return Terms(
            tool=self.name,
            cancel_policy=self.cancel_policy,
            cooperative_grace=self.cooperative_grace,
            hard_grace=self.hard_grace,
            time_limit=self.time_limit,
            queue=self.queue,
        )

    def wire(self) -> dict[str, Any]:
        """Its MCP Tool object (server/tools "Tool"). The schemas inside are shared: do not change them."""
        title = {} if self.title is None else {"title": self.title}
        return {"name": self.name, **title, "description": self.description, **self.registered.wire_members}


def offered(principal: Principal, names: frozenset[str] | None = None) -> list[OfferedTool]:
    """Everything that `principal` may call, sorted by name; `names`: what `names_granted` found that to be."""
    every = registered_tools().values()
    granted = rights.granted(every, principal) if names is None else [tool for tool in every if tool.name in names]
    rows = Tool.objects.in_bulk()
    return list(_join((tool, rows.get(tool.name)) for tool in sorted(granted, key=lambda tool: tool.name)))


def find(name: str, principal: Principal) -> OfferedTool | None:
    """The tool that `principal` may call by `name`; None is all that is said of a hidden, disabled or unknown one."""
    if (tool := registered_tools().get(name)) is None or not rights.is_granted(tool.access, principal):
        return None
    return offer(tool, Tool.objects.filter(pk=name).first())


def offer(tool: RegisteredTool, row: Tool | None) -> OfferedTool | None:
    """What the code and the row of a tool that is granted come to; None where it is not offered."""
    return next(_join([(tool, row)]), None)


def effective(row: Tool) -> OfferedTool | None:
    """What the code and `row`, saved or not, come to, enabled or not; None where this process has no such code."""
    tool = registered_tools().get(row.name)
    return None if tool is None else _offer(tool, row)


def page(cursor: str | None, principal: Principal, names: frozenset[str] | None = None) -> Page:
    """A page of `offered`, after `cursor` where there is one. Raises `InvalidCursor`."""
    tools = offered(principal, names)
    return paging.page(paging.list_at(principal.endpoint, SUBJECT), tools, lambda tool: tool.name, cursor)


def place(cursor: str | None, principal: Principal) -> str | None:
    """The name that the page of this cursor comes after; None for the first. Reads no row. Raises `InvalidCursor`."""
    return None if cursor is None else paging.read(paging.list_at(principal.endpoint, SUBJECT), cursor)


def is_same_for_everybody(endpoint: str) -> bool:
    """Whether who asks there makes no difference to what is offered. Reads no row."""
    return not any(tool.access.is_limited and endpoint in tool.access.endpoints for tool in registered_tools().values())


def names_granted(principal: Principal) -> frozenset[str]:
    """What the site grants `principal`, whether it is offered or not."""
    return frozenset(tool.name for tool in rights.granted(registered_tools().values(), principal))


def _join(pairs: Iterable[tuple[RegisteredTool, Tool | None]]) -> Iterator[OfferedTool]:
    for tool, row in pairs:
        if row is None:
            yield _offer(tool, _unsaid())
        elif row.enabled and row.registered:
            yield _offer(tool, row)


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
        rate=tool.rate or _default_rate(),
        concurrency=settings.TOOL_CONCURRENCY if tool.concurrency is None else tool.concurrency,
    )


@cache
def _unsaid() -> Tool:
    """A row that overrides nothing. A model takes long to be made."""
    return Tool()


def _default_rate() -> CallRate | None:
    return None if settings.TOOL_RATE is None else CallRate.read(settings.TOOL_RATE)


def _first(*seconds: float | None) -> float:
    """The first that is said; 0 seconds is said."""
    return next(each for each in seconds if each is not None)
