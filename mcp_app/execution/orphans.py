"""What tools left behind whose worker died as a whole: found on this host by their marker, and killed.

Refuses to touch what belongs to a request that may still be running.
"""

import logging

from mcp_app.execution import processes
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

ROUNDS = 3
"""For each request: who looks for these has a heart to beat, and looks again."""


def kill_orphans() -> None:
    """Kill every process of this host that was started by a request which is lost or cancelled."""
    marked = processes.owners()
    stopped = Request.objects.filter(pk__in=set(marked.values()), status__in=(Status.LOST, Status.CANCELLED))
    for request_id in set(stopped.values_list("pk", flat=True)):
        logger.warning("killing what request %s left behind", request_id)
        processes.kill_all(request_id, rounds=ROUNDS)
