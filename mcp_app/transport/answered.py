"""A row whose client has answered all that it asked, on its way to the broker again.

Refuses to wait for a broker that does not answer, and to fail whoever brought the answer.
"""

import asyncio
import logging

from mcp_app.conf import settings
from mcp_app.lifecycle import publishing
from mcp_app.models import Request
from mcp_app.transport.server import Server

logger = logging.getLogger(__name__)


async def publish_answered(row: Request, server: Server) -> None:
    """Hand the row to the broker; where it does not take it, supervision does so later."""
    try:
        async with asyncio.timeout(settings.PUBLISH_TIMEOUT):
            await server.broker.run(publishing.send, row.pk, row.queue)
    except Exception as error:
        logger.error("the answered request %s waits for the broker: %s", row.pk, error)
