"""Requests that tools start: each a request of its own, of the same principal, that does not outlive its parent's run.

A child is stored only while its parent's run goes on, under the lock that whoever cancels the parent takes, too: so
there is none that the cancellation does not find. It has no client, no server and no session. Refuses families without
bound: in depth, for one parent, for one principal.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, QuerySet

from mcp_app.auth.principal import COLUMNS, Principal, key_of
from mcp_app.conf import settings
from mcp_app.lifecycle import cancellation, endings, transitions
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import Request
from mcp_app.states import OPEN, TERMINAL, Status

BATCH = 500


class ParentStoppedError(Exception):
    """The run that would start a call is to stop, or is over."""


class TooManyChildrenError(Exception):
    """As many calls are open as may be; the text says whose."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A child as it is now. `result` is a CallToolResult once it has ended; of one that was stopped it says why."""

    status: Status
    result: dict[str, Any] | None = None
    stopped_with_parent: bool = False
    """Whether the run that started it is to stop as well."""


@transactional
def submit(submission: Submission, *, worker: UUID | None) -> Request:
    """Store a call that the running tool of `submission.parent` starts. Published as any other.

    Raises ParentStoppedError, also where the parent is not `worker`'s any more, and TooManyChildrenError.
    """
    assert submission.parent is not None, "calls without a parent go to `transitions`"
    # The parent's row is the lock that its cancellation takes: it comes before, and is seen, or after, and sees this.
    parent = transitions.unstopped().select_for_update().filter(pk=submission.parent, worker=worker, killing=False)
    if not parent.values_list("pk").first():
        raise ParentStoppedError
    siblings = Request.objects.filter(parent=submission.parent, status__in=OPEN).exclude(pk=submission.id)
    if siblings.count() >= settings.MAX_CHILDREN:
        raise TooManyChildrenError(f"The call has started {settings.MAX_CHILDREN} others that have not ended.")
    if _open_children(submission.principal) >= settings.MAX_CHILDREN_PER_PRINCIPAL:
        at_most = settings.MAX_CHILDREN_PER_PRINCIPAL
        raise TooManyChildrenError(f"Calls of this caller have started {at_most} others that have not ended.")
    Request.objects.filter(pk=submission.parent).update(children=F("children") + 1)
    return transitions.submit(submission)


def look(request_id: UUID) -> Seen:
    """A child as it is now. Raises Request.DoesNotExist where it was purged."""
    status = Status(Request.objects.values_list("status", flat=True).get(pk=request_id))
    if status not in TERMINAL:
        return Seen(status)
    row = Request.objects.get(pk=request_id)
    alone = status != Status.CANCELLED or (
        row.parent is not None and transitions.unstopped().filter(pk=row.parent).exists()
    )
    return Seen(status, endings.final_result(row), stopped_with_parent=not alone)


def cancel_orphans() -> None:
    """Cancel what goes on although the run that started it does not. A step of supervision."""
    going_on = transitions.unstopped().filter(pk=OuterRef("parent"))
    orphans = _open().filter(cancel_requested_at__isnull=True).exclude(Exists(going_on))
    parents = orphans.order_by("submitted_at").values_list("parent", flat=True)[:BATCH]
    cancellation.cancel_children([parent for parent in dict.fromkeys(parents) if parent])


def _open() -> QuerySet[Request]:
    return Request.objects.filter(status__in=OPEN, parent__isnull=False)


def _open_children(principal: Principal) -> int:
    # Counted here: by its indexes SQLite would go through all that this caller ever sent.
    return list(_open().values_list(*COLUMNS)).count(key_of(principal))
