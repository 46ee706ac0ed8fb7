"""Groups of requests that are cancelled in one act: all of a tool's, of a caller's, of a session's, of a parent's.

A group is what its requests have in common. It is cancelled through the one door, each request with an audit row of its
own that names the group. Refuses to chase what comes meanwhile: those that were open when it began are asked to stop,
with what they started; whoever wants to keep out more disables the tool or takes away the caller's right.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import cancellation
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, Outcome


@dataclass(frozen=True, slots=True)
class Group:
    """A selection of requests. `name` is for people and the audit; `common` are columns and their values."""

    name: str
    common: Mapping[str, Any]


EVERYTHING = Group("everything", MappingProxyType({}))


def of_tool(tool: str) -> Group:
    """All calls of one tool, whoever made them."""
    return Group(f"tool {tool}", {"tool": tool})


def of_principal(principal: Principal) -> Group:
    """All requests of one caller, at whatever endpoint, what its tools started included."""
    return Group(f"caller {principal.label}", principal.identity)


def of_session(session_id: UUID) -> Group:
    """All calls of one legacy session."""
    return Group(f"session {session_id}", {"session": session_id})


def of_parent(request_id: UUID) -> Group:
    """What the tool of one request started."""
    return Group(f"started by {request_id}", {"parent": request_id})


def open_in(group: Group) -> QuerySet[Request]:
    """Those of the group that have not ended and that nobody has asked to stop."""
    return Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=True, **group.common)


def cancel(group: Group, *, cause: Cause, actor: Actor, reason: str = "") -> Counter[Outcome]:
    """Ask all to stop that are open now; what came of it. Raises django.db.OperationalError: it may be repeated.

    TOO_LATE and DUPLICATE are those that others ended or cancelled meanwhile: they have no audit row.
    """
    # What is queued first, so that no slot that gets free is given to it.
    ids = list(open_in(group).order_by("status", "submitted_at").values_list("pk", flat=True))
    return cancellation.sweep(Ask(pk, cause, actor, reason, part_of=group.name) for pk in ids)
