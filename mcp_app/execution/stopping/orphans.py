"""Kill processes that tools left on this host when their worker died as a whole.

They are found by their marker. Processes of a request that may still run are left alone.
"""

import logging

from mcp_app.execution.stopping import processes
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

ROUNDS = 3
"""Attempts for each request: few, because the caller must send heartbeats and will try again."""


def kill_orphans() -> None:
    """Kill every process of this host that was started by a request that is lost or cancelled."""
    marked = processes.owners()
    stopped = Request.objects.filter(pk__in=set(marked.values()), status__in=(Status.LOST, Status.CANCELLED))
    for request_id in set(stopped.values_list("pk", flat=True)):
        logger.warning("killing the processes that request %s left behind", request_id)
        processes.kill_all(request_id, rounds=ROUNDS)
