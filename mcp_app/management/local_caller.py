"""Who calls from a terminal or over stdio, once the site can tell: its tables made where they are embedded, its tools
known. Insists, as several may start at once.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from django.db import Error, connections

from mcp_app.auth import local
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import rows
from mcp_app.management import preparation

logger = logging.getLogger(__name__)

PREPARING_ATTEMPTS: Final = 10
PREPARING_PAUSE: Final = 1.0

NotReady = (preparation.NotPreparedError, local.UnknownUserError, Error)
"""What `prepared` raises; the text says what to do."""


def prepared(username: str | None, endpoint: str, say: Callable[[str], object]) -> Principal:
    """See to the tables and the tools' rows; the caller. `username` None: no user of the site. Raises NotReady."""
    try:
        if applied := _prepare_databases():
            say(f"Applied {applied} migrations to the embedded databases.")
        rows.sync()
        if username is None:
            return local.local_principal(endpoint)
        return local.acting_for(username, endpoint)
    finally:
        connections.close_all()


def _prepare_databases() -> int:
    """As `preparation.prepare_databases`, tried again: of several clients that start at once, one makes each table."""
    for _ in range(PREPARING_ATTEMPTS - 1):
        try:
            return preparation.prepare_databases()
        except Error as error:
            logger.info("the tables could not be made, trying again: %s", error)
            connections.close_all()
            time.sleep(PREPARING_PAUSE)  # another process makes them, and tells nobody when it has
    return preparation.prepare_databases()
