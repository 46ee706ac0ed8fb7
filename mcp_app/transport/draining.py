"""How the streams of a server process end when the process does: each with an answer, within a bounded time.

Refuses to decide when: `server` and `shutdown` do.
"""

import asyncio
import logging

from mcp_app.conf import settings
from mcp_app.transport.admission import Admission

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 2.0
"""What reads are given to end, and listen streams to write their last message."""
STOPPING_SECONDS = 10.0
"""What cancelled calls are given to prove that they stopped; the ladder's default graces fit in twice."""


async def drain(admission: Admission) -> None:
    """Let nothing more in, end what waits for others, give running calls their time, cancel the rest, wait for them."""
    admission.draining = True
    for waiting in (*admission.listeners.open, *admission.asking.open):
        waiting.end()
    if not await admission.calls.emptied(settings.DRAIN_SECONDS):
        running = list(admission.calls.open)
        logger.info("shutting down: %d calls are still running and are cancelled", len(running))
        await asyncio.gather(*(call.cancel_for_shutdown() for call in running), return_exceptions=True)
        if not await admission.calls.emptied(STOPPING_SECONDS):
            logger.warning("shutting down: %d calls have not stopped yet", len(admission.calls.open))
    await admission.reads.emptied(CLOSING_SECONDS)
    await admission.asking.emptied(CLOSING_SECONDS)
    await admission.listeners.emptied(CLOSING_SECONDS)
