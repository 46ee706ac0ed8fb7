"""Calls that tools start. Each is a request of its own, for the same principal, and ends with its parent's run.

A child is stored under the lock of its parent's row, which a cancellation of the parent takes as well. So a
cancellation finds every child. A child has no client, no server process and no session. The depth, and the numbers of
open children per parent and per principal, are limited.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, QuerySet

from mcp_app.conf import settings
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import Request
from mcp_app.states import OPEN, TERMINAL, Status

BATCH = 500


class ParentStoppedError(Exception):
    """The run that would start a call must stop, or has ended."""


class TooManyChildrenError(Exception):
    """A limit on open calls is reached. The message names the limit."""


@dataclass(frozen=True, slots=True)
class ChildState:
    """The state of a child. `result` is a CallToolResult once it has ended."""

    status: Status
    result: dict[str, Any] | None = None
    stopped_with_parent: bool = False
    """Whether the run that started it must stop as well."""


@transactional
def submit(submission: Submission, *, worker: UUID | None) -> Request:
    """Store a call that the running tool of `submission.parent` starts.

    Raises `ParentStoppedError`, also if `worker` does not run the parent any more, and `TooManyChildrenError`.
    """
    assert submission.parent is not None, "calls without a parent are stored by `transitions`"
    # A cancellation locks the parent's row, too. It either comes first and is seen here, or it finds this child.
    parent = transitions.unstopped().select_for_update().filter(pk=submission.parent, worker=worker, killing=False)
    if not parent.values_list("pk").first():
        raise ParentStoppedError
    siblings = Request.objects.filter(parent=submission.parent, status__in=OPEN).exclude(pk=submission.id)
    if siblings.count() >= settings.MAX_CHILDREN:
        raise TooManyChildrenError(
            f"the call that would start it has {settings.MAX_CHILDREN} started calls in flight, which is the limit."
        )
    if not capacity.has_room(submission.principal, _open(), settings.MAX_CHILDREN_PER_PRINCIPAL):
        at_most = settings.MAX_CHILDREN_PER_PRINCIPAL
        raise TooManyChildrenError(
            f"the calls of its caller have {at_most} started calls in flight, which is the limit."
        )
    Request.objects.filter(pk=submission.parent).update(children=F("children") + 1)
    return transitions.submit(submission)


def look(request_id: UUID) -> ChildState:
    """Return the state of a child. Raises `Request.DoesNotExist` if it was purged."""
    status = Status(Request.objects.values_list("status", flat=True).get(pk=request_id))
    if status not in TERMINAL:
        return ChildState(status)
    row = Request.objects.get(pk=request_id)
    alone = status != Status.CANCELLED or (
        row.parent is not None and transitions.unstopped().filter(pk=row.parent).exists()
    )
    return ChildState(status, observation.final_result(row), stopped_with_parent=not alone)


def cancel_orphans() -> None:
    """Cancel the children of runs that have ended. This is a step of supervision."""
    going_on = transitions.unstopped().filter(pk=OuterRef("parent"))
    orphans = _open().filter(cancel_requested_at__isnull=True).exclude(Exists(going_on))
    parents = orphans.order_by("submitted_at").values_list("parent", flat=True)[:BATCH]
    cancellation.cancel_children([parent for parent in dict.fromkeys(parents) if parent])


def _open() -> QuerySet[Request]:
    return Request.objects.filter(status__in=OPEN, parent__isnull=False)
