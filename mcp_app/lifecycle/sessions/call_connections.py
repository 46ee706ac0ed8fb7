"""Which connection receives the events and result of a legacy client's call.

In a session, a client whose connection is lost may reconnect and get the rest of the response, from
any server process. Until then the call goes on. If the client does not reconnect within
`ABANDONED_AFTER` seconds, the call is cancelled with the cause "abandoned".

`Request.follower` identifies the connection, and `Request.left_at` is the time at which it was
lost.
"""

from uuid import UUID

from django.db.models import Exists, QuerySet

from mcp_app.conf import settings
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import not_lost
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Request, RequestEvent
from mcp_app.models.utc_date_time import Now
from mcp_app.states import OPEN, Cause, EventKind, ProcessRole, Status

BATCH = 500
_DETACHED = Event(EventKind.NOTE, {"message": "The client disconnected; the call continues."})


@transactional
def record_disconnect(request_id: UUID, follower: UUID | None) -> None:
    """Record that a connection ended before its call did.

    Ignored if another connection has taken over, or if it is already recorded.
    """
    Request.objects.filter(pk=request_id, follower=follower, status__in=OPEN, left_at=None).update(left_at=Now())


@transactional
def detach(request_id: UUID) -> None:
    """Let a call without a session go on after its client has left.

    Supervision does not cancel it if the server process dies.
    """
    row = Request.objects.select_for_update().filter(pk=request_id, status__in=OPEN).first()
    if row is not None:
        transitions.move(row, Status(row.status), [_DETACHED], server=None)


def find_call(session: UUID, request_id: UUID) -> Request | None:
    """Return the session's call with this id, open or ended, or `None`."""
    return Request.objects.filter(pk=request_id, session=session).first()


@transactional
def take_over(request_id: UUID, follower: UUID, server: UUID) -> Request:
    """Make another connection the one that receives a call's events, and return the call.

    `follower` identifies the new connection, and `server` the process that has it. The connection
    that had the call before notices this by `follower`, and ends.
    """
    Request.objects.filter(pk=request_id).update(follower=follower, server=server, left_at=None)
    return Request.objects.get(pk=request_id)


def last_progress(request_id: UUID, seq: int) -> dict[str, object] | None:
    """Return the last progress that a client has received if it has the events up to and including
    `seq`, or `None`."""
    events = RequestEvent.objects.filter(request=request_id, kind=EventKind.PROGRESS, seq__lte=seq).order_by("-seq")
    return events.values_list("data", flat=True).first()


def disconnect_calls_of_silent_servers() -> None:
    """Record that the connections to dead server processes have ended. A step of supervision."""
    followed = _session_calls().filter(
        left_at=None, server__isnull=False, submitted_at__lt=from_now(-settings.LOST_AFTER)
    )
    orphans = followed.exclude(Exists(not_lost("server", ProcessRole.SERVER))).values_list("pk", "follower")[:BATCH]
    for request_id, follower in processes.share(orphans):
        record_disconnect(request_id, follower)


def cancel_abandoned_calls() -> None:
    """Cancel the calls whose clients did not reconnect in time. A step of supervision."""
    abandoned = _session_calls().filter(left_at__lt=from_now(-settings.ABANDONED_AFTER), cancel_requested_at=None)
    ids = abandoned.order_by("left_at").values_list("pk", flat=True)[:BATCH]
    reason = "no client came back for its result"
    cancellation.sweep(
        CancellationRequest(request_id, Cause.ABANDONED, SYSTEM, reason) for request_id in processes.share(ids)
    )


def _session_calls() -> QuerySet[Request]:
    return Request.objects.filter(session__isnull=False, status__in=OPEN)
