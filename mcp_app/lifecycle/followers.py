"""Who follows a legacy client's call: in a session one that was cut off may come back for it, on any connection and to
any process.

The call goes on meanwhile. Refuses to wait for ever: a call that nobody comes back for is cancelled, cause abandoned.
"""

from uuid import UUID

from django.db.models import Exists, QuerySet
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle import cancellation, processes, transitions
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.processes import not_lost
from mcp_app.models import Request, RequestEvent
from mcp_app.states import OPEN, Cause, EventKind, ProcessRole, Status

BATCH = 500
_GOES_ON = Event(EventKind.NOTE, {"message": "Its client left; it goes on."})


@transactional
def leave(request_id: UUID, follower: UUID | None) -> None:
    """Note that this follower's connection ended before the call did; nothing if another follows by now."""
    Request.objects.filter(pk=request_id, follower=follower, status__in=OPEN, left_at=None).update(left_at=Now())


@transactional
def let_go(request_id: UUID) -> None:
    """Note that nobody waits for this call any more and that it is to go on all the same: no server answers for it."""
    row = Request.objects.select_for_update().filter(pk=request_id, status__in=OPEN).first()
    if row is not None:
        transitions.move(row, Status(row.status), [_GOES_ON], server=None)


def call_of(session: UUID, request_id: UUID) -> Request | None:
    """The session's call with this id, whether it has ended or not."""
    return Request.objects.filter(pk=request_id, session=session).first()


@transactional
def take_over(request_id: UUID, follower: UUID, server: UUID) -> Request:
    """Make `follower`, a connection to `server`, the one that a call's events are sent to; its row.

    Whoever followed it before sends nothing more.
    """
    Request.objects.filter(pk=request_id).update(follower=follower, server=server, left_at=None)
    return Request.objects.get(pk=request_id)


def progress_until(request_id: UUID, seq: int) -> dict[str, object] | None:
    """The data of the newest progress event up to and with `seq`: what its client has seen; None without one."""
    told = RequestEvent.objects.filter(request=request_id, kind=EventKind.PROGRESS, seq__lte=seq).order_by("-seq")
    return told.values_list("data", flat=True).first()


def leave_calls_of_silent_servers() -> None:
    """The connections to a dead server process have ended. A step of supervision."""
    followed = _session_calls().filter(
        left_at=None, server__isnull=False, submitted_at__lt=from_now(-settings.LOST_AFTER)
    )
    orphans = followed.exclude(Exists(not_lost("server", ProcessRole.SERVER))).values_list("pk", "follower")[:BATCH]
    for request_id, follower in processes.share(orphans):
        leave(request_id, follower)


def cancel_abandoned_calls() -> None:
    """Cancel what nobody came back for in time. A step of supervision."""
    abandoned = _session_calls().filter(left_at__lt=from_now(-settings.ABANDONED_AFTER), cancel_requested_at=None)
    ids = abandoned.order_by("left_at").values_list("pk", flat=True)[:BATCH]
    reason = "nobody came back for its result"
    cancellation.sweep(Ask(request_id, Cause.ABANDONED, SYSTEM, reason) for request_id in processes.share(ids))


def _session_calls() -> QuerySet[Request]:
    return Request.objects.filter(session__isnull=False, status__in=OPEN)
