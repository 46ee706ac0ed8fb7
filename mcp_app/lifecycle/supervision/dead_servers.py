"""Cancel the calls whose clients waited in a dead server process, before a worker runs them.

A server process that is killed cannot clean up. Its heartbeat shows its death only after
`LOST_AFTER`. Until then, workers would run its queued calls, although no client is waiting for the
results. So every process that runs tools checks before each claim whether the server processes of
its host are still running (`LocalServers`). On other hosts, the heartbeat decides
(`rounds.cancel_requests_of_silent_servers`), unless a new server process on that host finds out
first.
"""

import time

from django.db.models import Q, QuerySet

from mcp_app.auth import local
from mcp_app.conf import settings
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.models import Request
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import OPEN, Cause, ProcessRole, Status

REASON = "the server process died or sent no more heartbeats"
AWAITED = OPEN - {Status.INPUT_REQUIRED}
"""The statuses in which a client is waiting for a response."""
LEGACY = Q(protocol_version__in=LEGACY_REVISIONS)
OVER_STDIO = Q(issuer=local.ISSUER)


def waited_for() -> QuerySet[Request]:
    """Return the open calls that must be cancelled if their server process dies.

    Calls of a session or a task are excluded, because their clients may come back. Calls that wait
    for their client's input are excluded as well: the client has received a response and may send
    its answer to any server process. The exception is a legacy client over stdio, which can answer
    only on the connection that is lost.
    """
    asking = Q(status=Status.INPUT_REQUIRED) & LEGACY & OVER_STDIO
    calls = Request.objects.filter(
        Q(status__in=AWAITED) | asking, cancel_requested_at__isnull=True, server__isnull=False, session__isnull=True
    )
    return calls if settings.SESSIONLESS_DISCONNECT_CANCELS else calls.exclude(LEGACY & ~OVER_STDIO)


class LocalServers:
    """The server processes of this host; the list is read again every `HEARTBEAT_INTERVAL`.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._known: list[Identity] = []
        self._read_at = float("-inf")

    def cancel_calls_of_dead(self) -> None:
        """Cancel the calls of dead server processes, and mark these as stopped.

        Raises `django.db.Error`.
        """
        if time.monotonic() - self._read_at > settings.HEARTBEAT_INTERVAL:
            self._read_at = time.monotonic()
            self._known = processes.unstopped_here(ProcessRole.SERVER)
        for server in [each for each in self._known if processes.has_ended(each.pid)]:
            # Queued calls first: a slot that becomes free must not be given to one of them.
            calls = waited_for().filter(server=server.boot_id).order_by("status", "submitted_at")
            ids = list(calls.values_list("pk", flat=True))
            cancellation.sweep(CancellationRequest(request_id, Cause.LOST_SERVER, SYSTEM, REASON) for request_id in ids)
            processes.stop(server)
            self._known.remove(server)


def cancel_calls_of_dead_servers() -> None:
    """Cancel the calls of this host's dead server processes. A step of supervision."""
    LocalServers().cancel_calls_of_dead()
