"""Authenticates the caller of an HTTP request, and confirms them while the response stays open.

A credential can be revoked while a response is open, and nothing notifies the server. So the site's
authenticator is called again with the request that opened the response.
"""

import logging
import math
import time
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Protocol

from mcp_app.auth.authentication import (
    HTTPConnection,
    authenticate,
    authenticate_anonymous,
    authentication_unavailable,
    invalid_credentials,
)
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import FORBIDDEN, UNAUTHORIZED, Rejection, RequestId
from mcp_app.transport.process.threads import SilentDatabaseError, Threads

logger = logging.getLogger(__name__)

UNCONFIRMED_SECONDS: Final = 60.0
"""How long after its last confirmation a response may stay open while the authenticator fails. A failure does not mean
that the token was revoked."""
ASK_AGAIN_SECONDS: Final = 1.0
"""How long to wait between two calls of the authenticator for a caller who must be confirmed."""


class CallerStatus(Enum):
    """What is known about a caller who was accepted when the response began."""

    CONFIRMED = auto()
    REVOKED = auto()
    """The credential is refused, has lost a scope, or now belongs to another principal."""
    UNANSWERED = auto()
    """The authenticator failed, or did not answer in time."""
    UNANSWERED_TOO_LONG = auto()
    """As `UNANSWERED`, and the last confirmation is `UNCONFIRMED_SECONDS` old."""

    @property
    def ends_response(self) -> bool:
        return self in (CallerStatus.REVOKED, CallerStatus.UNANSWERED_TOO_LONG)


@dataclass(frozen=True, slots=True)
class LostAccess:
    """Why an open response must end."""

    reason: str
    """For the audit."""
    rejection: Rejection
    """For the client."""


def lost_access(status: CallerStatus, endpoint: str, request_id: RequestId | None) -> LostAccess | None:
    """Return why a response must end, or `None` if it may go on."""
    if status == CallerStatus.REVOKED:
        reason, rejection = "the caller's credential is no longer accepted", invalid_credentials(endpoint)
    elif status == CallerStatus.UNANSWERED_TOO_LONG:
        reason = f"the caller's credential could not be confirmed for {UNCONFIRMED_SECONDS:g} s"
        rejection = authentication_unavailable()
    else:
        return None
    return LostAccess(reason, replace(rejection, request_id=request_id))


class StreamCaller(Protocol):
    """The caller who waits for an open response."""

    @property
    def seconds_to_wait(self) -> float:
        """How long an idle response may wait before it calls `confirm`."""

    @property
    def is_due(self) -> bool:
        """Whether the caller must be confirmed before the next message is sent."""

    async def confirm(self) -> CallerStatus:
        """Return whether the caller is still accepted. Calls the authenticator, if there is one."""


class UnrevocableCaller:
    """A caller without a credential that could be revoked: an anonymous one, or over stdio the user who started the
    process."""

    seconds_to_wait = math.inf
    is_due = False

    async def confirm(self) -> CallerStatus:
        return CallerStatus.CONFIRMED


class RevocableCaller:
    """A caller whom the site's authenticator has just accepted."""

    def __init__(self, threads: Threads, connection: HTTPConnection, principal: Principal) -> None:
        self._threads = threads
        self._connection = connection
        self._principal = principal
        self._confirmed_at = time.monotonic()

    @property
    def seconds_to_wait(self) -> float:
        return ASK_AGAIN_SECONDS if self.is_due else self._valid_seconds

    @property
    def is_due(self) -> bool:
        return self._valid_seconds <= 0

    async def confirm(self) -> CallerStatus:
        answer = await authenticate_caller(self._threads, self._connection)
        if isinstance(answer, Rejection) and answer.code not in (UNAUTHORIZED, FORBIDDEN):
            return (
                CallerStatus.UNANSWERED
                if self._unconfirmed_seconds < UNCONFIRMED_SECONDS
                else CallerStatus.UNANSWERED_TOO_LONG
            )
        # A rejection equals no principal, and scopes do not count in the equality.
        if answer != self._principal or _has_lost_scopes(answer, self._principal):
            return CallerStatus.REVOKED
        self._confirmed_at = time.monotonic()
        return CallerStatus.CONFIRMED

    @property
    def _valid_seconds(self) -> float:
        """Seconds for which the last confirmation is still valid."""
        confirm_after: float = settings.CONFIRM_AFTER
        return confirm_after - self._unconfirmed_seconds

    @property
    def _unconfirmed_seconds(self) -> float:
        return time.monotonic() - self._confirmed_at


def stream_caller(threads: Threads, connection: HTTPConnection, principal: Principal) -> StreamCaller:
    return (
        UnrevocableCaller()
        if settings.at(connection.endpoint).AUTHENTICATOR is None
        else RevocableCaller(threads, connection, principal)
    )


def _has_lost_scopes(now: Principal, before: Principal) -> bool:
    """Return whether a token has lost a scope since it was accepted. `None`: not limited by scopes."""
    return now.scopes is not None and (before.scopes is None or not before.scopes <= now.scopes)


async def authenticate_caller(threads: Threads, connection: HTTPConnection) -> Principal | Rejection:
    """Return the principal of a request, or the rejection to send: 401, 403 or 503."""
    authenticator = settings.at(connection.endpoint).AUTHENTICATOR
    if authenticator is None:
        return authenticate_anonymous(connection)
    try:
        return await threads.run(authenticate, connection, within=settings.AUTHENTICATION_TIMEOUT)
    except SilentDatabaseError:  # raised when the time is over
        logger.error("the authenticator %s did not answer in time", authenticator)
        return authentication_unavailable()
