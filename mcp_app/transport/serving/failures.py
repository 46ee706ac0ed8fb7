"""Turns exceptions inside the server into errors for the client.

The log has the details. The client never receives the text of an exception.
"""

import logging

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError

from mcp_app import descriptors
from mcp_app.lifecycle import redaction
from mcp_app.protocol.errors import INTERNAL_ERROR, Rejection, RequestId, refuse
from mcp_app.transport.process.admission import BUSY, unavailable
from mcp_app.transport.watching.row_watcher import RowGoneError

logger = logging.getLogger(__name__)

INTERNAL = "The server failed; its operator can find the details in the log."
DATABASE_AWAY = "The server's database cannot be reached; try again in a moment."
GONE = "The server's database lost this call. It may have run, and its result is lost. Check before you repeat it."


def explain(error: Exception, request_id: RequestId | None) -> Rejection:
    """Log why a request failed, and return the error for its client."""
    if isinstance(error, OperationalError | InterfaceError):  # the database is away
        logger.error("a request failed because of a database error: %s", str(error).strip())
        return database_away(request_id)
    if isinstance(error, DatabaseError):
        logger.error("a request failed because of a database error", exc_info=redaction.error_without_text(error))
        return database_away(request_id)
    if isinstance(error, RowGoneError):
        logger.error("the row of a waiting request is gone: the database was restored, or the row was deleted")
        return refuse(INTERNAL_ERROR, GONE, request_id)
    if descriptors.are_exhausted(error):
        logger.error("a request failed: this process has no file descriptor left; raise its limit (ulimit -n)")
        return unavailable(BUSY, request_id)
    logger.error("a request failed inside the server", exc_info=redaction.error_without_text(error))
    return refuse(INTERNAL_ERROR, INTERNAL, request_id)


def database_away(request_id: RequestId | None) -> Rejection:
    """Return the error for a request that could not be stored."""
    return unavailable(DATABASE_AWAY, request_id)
