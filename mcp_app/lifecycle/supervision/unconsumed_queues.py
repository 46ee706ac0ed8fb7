"""Report queues in which calls are waiting and that no worker consumes.

Workers write into their rows which queues they consume. With `DEBUG`, the waiting calls fail as
well, and the error names the command that starts a worker. Without `DEBUG`, they go on waiting,
because a deployment may be about to start the worker.
"""

import logging
import time
from collections.abc import Iterable
from typing import Final

from django.conf import settings as django_settings

from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.queues import QueueAge
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

REPORT_AFTER_SECONDS: Final = 4.0
FAIL_AFTER_SECONDS: Final = 15.0
"""How long a call waits with `DEBUG`. A worker takes less time to start, or to add a new queue."""
REPORT_AGAIN_SECONDS: Final = 60.0
COMMAND: Final = "python manage.py mcp worker"

_reported_at: dict[str, float] = {}
"""When this process last reported a queue (`time.monotonic`)."""


def report(ages: Iterable[QueueAge]) -> None:
    """Log an error for each of these queues that no worker consumes, at most once a minute."""
    waiting = {age.queue: age.waiting for age in ages if age.oldest_seconds >= REPORT_AFTER_SECONDS}
    consumed = processes.consumed_queues() if waiting else set()
    if consumed is None:
        return
    for queue in _reported_at.keys() - (waiting.keys() - consumed):
        del _reported_at[queue]
    for queue in sorted(waiting.keys() - consumed):
        if time.monotonic() - _reported_at.get(queue, float("-inf")) >= REPORT_AGAIN_SECONDS:
            _reported_at[queue] = time.monotonic()
            logger.error("%s Calls that wait: %d.", describe(queue), waiting[queue])
        if django_settings.DEBUG:
            error = {"cause": "no worker", "message": describe(queue)}
            overdue = Request.objects.filter(
                status=Status.QUEUED, queue=queue, queued_at__lt=from_now(-FAIL_AFTER_SECONDS)
            )
            for request_id in processes.share(overdue.values_list("pk", flat=True)):
                transitions.finish(request_id, Status.FAILED, error=error)


def describe(queue: str) -> str:
    """Return the message for a queue that no worker consumes, with the command that helps."""
    return f'No worker consumes the queue "{queue}". Start one: `{COMMAND}`.'
