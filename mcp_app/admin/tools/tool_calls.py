"""Call tools from the admin on behalf of the user. Such calls are as durable as those of clients.

The caller is the one that the site's own login (`auth.logins`) would give, with the same rights and limits.
There is no client, so no disconnect cancels the call, and it cannot ask questions. A call that must not run is
not stored.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db import Error as DatabaseError

from mcp_app.auth.authentication import has_access, principal_of
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import arguments as schema
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.arguments import Accepted
from mcp_app.catalogue.catalogue import Excess, OfferedTool
from mcp_app.conf import settings
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.publishing import BrokerUnavailableError
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.submission import Submission, redacted_arguments
from mcp_app.models import Request
from mcp_app.protocol.revisions import MODERN

logger = logging.getLogger(__name__)

CLIENT: Final = {"name": "Django admin"}
_ASKS: Final = (
    "This tool needs a client with the capabilities {}, which the admin does not have. Call "
    "it from a client that declares them."
)
_NOT_STORED: Final = "The call was not stored: the database is busy or cannot be reached. Try again in a moment."


@dataclass(frozen=True, slots=True)
class StaffCall:
    """The data of a call that the page makes."""

    request_id: UUID
    language: str
    address: str


class NotCalledError(Exception):
    """The call was not made. The message is for the user."""


def callers(user: AbstractBaseUser, name: str) -> list[Principal]:
    """Return the user as a caller, for each endpoint at which they may call the tool now."""
    who = [replace(principal_of(user), endpoint=endpoint) for endpoint in settings.endpoints]
    return [each for each in who if catalogue.find(name, each) is not None and has_access(each, each.endpoint)]


def why_not(tool: OfferedTool) -> str | None:
    """Return why the tool cannot be called from the admin, or `None` if it can."""
    required = tool.registered.requires
    return _ASKS.format(", ".join(sorted(required))) if required else None


def call(tool: OfferedTool, caller: Principal, arguments: Mapping[str, Any], asking: StaffCall) -> Request:
    """Return the queued request of a call. The same id returns the same request again.

    Raises InvalidArguments and NotCalledError. After either, nothing will run.
    """
    if (reason := why_not(tool)) is not None:
        raise NotCalledError(reason)
    accepted = schema.accept(tool.registered, arguments)
    row = _store(tool, caller, arguments, accepted, asking)
    try:
        publishing.publish(row)
    except BrokerUnavailableError as error:
        raise NotCalledError(str(error)) from error
    except DatabaseError:  # it is unknown whether the message was sent; the row will show it
        logger.exception("the result of publishing request %s could not be stored", row.pk)
    return row


def _store(
    tool: OfferedTool, caller: Principal, arguments: Mapping[str, Any], accepted: Accepted, asking: StaffCall
) -> Request:
    try:
        stored: Request | Excess | None = catalogue.find_excess(caller)
        if stored is None:
            submission = Submission(
                **tool.terms,
                id=asking.request_id,
                jsonrpc_id=str(asking.request_id),
                arguments=dict(arguments),
                kept_arguments=redacted_arguments(tool.name, dict(arguments), accepted.arguments),
                protocol_version=MODERN,
                principal=caller,
                client_info=CLIENT,
                language=asking.language,
                remote_address=asking.address,
            )
            stored = catalogue.store(submission, tool, transitions.submit)
    except DatabaseError as error:
        logger.exception("a call of %s by %s could not be stored", tool.name, caller.label)
        raise NotCalledError(_NOT_STORED) from error
    if isinstance(stored, Excess):
        raise NotCalledError(stored.words)
    return stored
