"""Groups of requests that are cancelled together: all of a tool, a caller, a session or a parent.

Each request of a group gets an audit row of its own, which names the group. Only requests that are open at the start
are cancelled, with the calls that they have started. To refuse later requests, disable the tool or revoke the caller's
access.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, Outcome


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """The requests with certain values in some columns (`common`). `name` is shown to people, and in the audit."""

    name: str
    common: Mapping[str, Any]


EVERYTHING = RequestGroup("everything", MappingProxyType({}))


def of_tool(tool: str) -> RequestGroup:
    """Return all calls of one tool."""
    return RequestGroup(f"tool {tool}", {"tool": tool})


def of_principal(principal: Principal) -> RequestGroup:
    """Return all requests of one caller at all endpoints, including calls that its tools have started."""
    return RequestGroup(f"caller {principal.label}", principal.identity)


def of_session(session_id: UUID) -> RequestGroup:
    """Return all calls of one legacy session."""
    return RequestGroup(f"session {session_id}", {"session": session_id})


def of_parent(request_id: UUID) -> RequestGroup:
    """Return the calls that the tool of one request has started."""
    return RequestGroup(f"started by {request_id}", {"parent": request_id})


def open_in(group: RequestGroup) -> QuerySet[Request]:
    """Return the requests of the group that are open and not cancelled yet."""
    return Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=True, **group.common)


def cancel(group: RequestGroup, *, cause: Cause, actor: Actor, reason: str = "") -> Counter[Outcome]:
    """Cancel the open requests of a group and count the outcomes. TOO_LATE and DUPLICATE have no audit row.

    Raises `django.db.OperationalError`; then it can be called again.
    """
    # Queued calls first, so that none of them gets the slot of a running one.
    ids = list(open_in(group).order_by("status", "submitted_at").values_list("pk", flat=True))
    return cancellation.sweep(CancellationRequest(pk, cause, actor, reason, part_of=group.name) for pk in ids)
