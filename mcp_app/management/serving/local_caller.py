"""Prepares the site for a caller at a terminal or over stdio, and returns the caller's principal.

Embedded databases get their tables, and tools their rows. Several processes may do this at the same time.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from django.db import Error, connections

from mcp_app.auth import local
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import tool_rows
from mcp_app.management.serving import preparation

logger = logging.getLogger(__name__)

PREPARING_ATTEMPTS: Final = 10
PREPARING_PAUSE: Final = 1.0

NotReady = (preparation.NotPreparedError, local.UnknownUserError, Error)
"""The errors of `prepared`. The message explains what to do."""


def prepared(username: str | None, endpoint: str, say: Callable[[str], object]) -> Principal:
    """Prepare tables and tools and return the caller, a user of the site if `username` is given. Raises `NotReady`."""
    try:
        if applied := _prepare_databases():
            say(f"Applied {applied} migrations to the embedded databases.")
        tool_rows.sync()
        if username is None:
            return local.local_principal(endpoint)
        return local.acting_for(username, endpoint)
    finally:
        connections.close_all()


def _prepare_databases() -> int:
    """Retry `preparation.prepare_databases`, because another process may create the same tables."""
    for _ in range(PREPARING_ATTEMPTS - 1):
        try:
            return preparation.prepare_databases()
        except Error as error:
            logger.info("the tables could not be made, trying again: %s", error)
            connections.close_all()
            time.sleep(PREPARING_PAUSE)  # another process creates them, and does not report when it has finished
    return preparation.prepare_databases()
