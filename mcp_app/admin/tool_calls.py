"""Calls that members of the staff make from the admin: each its user's own, and durable like any client's.

Who calls is who would have come with the site's own login (`auth.logins`), with the same rights and limits. There is no
client: nobody can leave, and nobody can be asked. Refuses to store what is not to run.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db import Error as DatabaseError

from mcp_app.auth.authentication import is_let_in, principal_of
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import call_limits, catalogue, schema
from mcp_app.catalogue.call_limits import Excess
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.conf import settings
from mcp_app.lifecycle import publishing, transitions
from mcp_app.lifecycle.publishing import BrokerUnavailableError
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import Request
from mcp_app.protocol.revisions import MODERN

logger = logging.getLogger(__name__)

CLIENT: Final = {"name": "Django admin"}
_ASKS: Final = (
    "This tool needs a client that can be asked ({}), which the admin is not: call it from one that declares that."
)
_NOT_STORED: Final = "The call was not stored: the database is busy or away. Try again in a moment."


@dataclass(frozen=True, slots=True)
class Asking:
    """What a call takes from the page that makes it."""

    request_id: UUID
    language: str
    address: str


class NotCalledError(Exception):
    """Nothing runs; the text is for the user."""


def callers(user: AbstractBaseUser, name: str) -> list[Principal]:
    """The user as a caller, at each endpoint where this user may call the tool now."""
    who = [replace(principal_of(user), endpoint=endpoint) for endpoint in settings.endpoints]
    return [each for each in who if catalogue.find(name, each) is not None and is_let_in(each, each.endpoint)]


def why_not(tool: OfferedTool) -> str | None:
    """Why nobody can call this tool from here; None where it can be tried."""
    required = tool.registered.requires
    return _ASKS.format(", ".join(sorted(required))) if required else None


def call(tool: OfferedTool, caller: Principal, arguments: Mapping[str, Any], asking: Asking) -> Request:
    """The queued request of a call; asked again with the same id, the same one.

    Raises InvalidArguments, and NotCalledError; neither leaves anything to run.
    """
    if (reason := why_not(tool)) is not None:
        raise NotCalledError(reason)
    schema.bind(tool.registered, arguments)
    row = _store(tool, caller, arguments, asking)
    try:
        publishing.publish(row)
    except BrokerUnavailableError as error:
        raise NotCalledError(str(error)) from error
    except DatabaseError:  # whether it was sent is not known; its row says what becomes of it
        logger.exception("whether the broker took request %s could not be stored", row.pk)
    return row


def _store(tool: OfferedTool, caller: Principal, arguments: Mapping[str, Any], asking: Asking) -> Request:
    try:
        stored: Request | Excess | None = call_limits.lack_of_room(caller)
        if stored is None:
            submission = Submission(
                **tool.terms,
                id=asking.request_id,
                jsonrpc_id=str(asking.request_id),
                arguments=dict(arguments),
                protocol_version=MODERN,
                principal=caller,
                client_info=CLIENT,
                language=asking.language,
                remote_address=asking.address,
            )
            stored = call_limits.store(submission, tool, transitions.submit)
    except DatabaseError as error:
        logger.exception("a call of %s by %s could not be stored", tool.name, caller.label)
        raise NotCalledError(_NOT_STORED) from error
    if isinstance(stored, Excess):
        raise NotCalledError(stored.words)
    return stored
