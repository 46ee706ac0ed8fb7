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
"""How long a response stays open while the authenticator fails, since this revokes no token."""
ASK_AGAIN_SECONDS: Final = 1.0
"""Delay before an authenticator that failed is called again."""


class AcceptedCaller(Enum):
    """The authenticator's answer about a caller whom it has accepted before."""

    CONFIRMED = auto()
    GONE = auto()
    """The credential is no longer this principal's."""
    UNKNOWN = auto()
    """The authenticator failed, or did not answer in time."""
    UNCONFIRMED = auto()
    """It has failed for `UNCONFIRMED_SECONDS`."""

    @property
    def ends_response(self) -> bool:
        return self in (AcceptedCaller.GONE, AcceptedCaller.UNCONFIRMED)


@dataclass(frozen=True, slots=True)
class LostCaller:
    """A caller whom the site no longer accepts."""

    reason: str
    """For the audit."""
    rejection: Rejection
    """For the client."""


def lost_caller(standing: AcceptedCaller, endpoint: str, request_id: RequestId | None) -> LostCaller | None:
    """Return why a response must end, or `None` if it may go on."""
    if standing == AcceptedCaller.GONE:
        reason, rejection = "the caller's credential is no longer accepted", invalid_credentials(endpoint)
    elif standing == AcceptedCaller.UNCONFIRMED:
        reason = f"the caller's credential could not be confirmed for {UNCONFIRMED_SECONDS:g} s"
        rejection = authentication_unavailable()
    else:
        return None
    return LostCaller(reason, replace(rejection, request_id=request_id))


class StreamCaller(Protocol):
    """The caller of an open response."""

    @property
    def seconds_until_due(self) -> float:
        """Seconds until the caller must be confirmed even if there is nothing to send."""

    @property
    def is_due(self) -> bool: ...

    async def confirm(self) -> AcceptedCaller:
        """Call the authenticator again."""


class Trusted:
    """A caller without a revocable credential: an anonymous one, or the user of this machine."""

    seconds_until_due = math.inf
    is_due = False

    async def confirm(self) -> AcceptedCaller:
        return AcceptedCaller.CONFIRMED


class Credentialed:
    """A caller that the site's authenticator has accepted."""

    def __init__(self, threads: Threads, connection: HTTPConnection, principal: Principal) -> None:
        self._threads = threads
        self._connection = connection
        self._principal = principal
        self._confirmed_at = time.monotonic()

    @property
    def seconds_until_due(self) -> float:
        return ASK_AGAIN_SECONDS if self.is_due else self._valid_seconds

    @property
    def is_due(self) -> bool:
        return self._valid_seconds <= 0

    async def confirm(self) -> AcceptedCaller:
        answer = await authenticate_caller(self._threads, self._connection)
        if isinstance(answer, Rejection) and answer.code not in (UNAUTHORIZED, FORBIDDEN):
            return (
                AcceptedCaller.UNKNOWN
                if self._unconfirmed_seconds < UNCONFIRMED_SECONDS
                else AcceptedCaller.UNCONFIRMED
            )
        if answer != self._principal or _has_lost_scopes(answer, self._principal):
            return AcceptedCaller.GONE
        self._confirmed_at = time.monotonic()
        return AcceptedCaller.CONFIRMED

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
        Trusted()
        if settings.at(connection.endpoint).AUTHENTICATOR is None
        else Credentialed(threads, connection, principal)
    )


def _has_lost_scopes(now: Principal, before: Principal) -> bool:
    """Whether a token has lost a scope since its bearer was accepted."""
    return now.scopes is not None and (before.scopes is None or not before.scopes <= now.scopes)


async def authenticate_caller(threads: Threads, connection: HTTPConnection) -> Principal | Rejection:
    """Return the principal of a request, or the 401 or 503 to send."""
    authenticator = settings.at(connection.endpoint).AUTHENTICATOR
    if authenticator is None:
        return authenticate_anonymous(connection)
    try:
        return await threads.run_within(settings.AUTHENTICATION_TIMEOUT, authenticate, connection)
    except SilentDatabaseError:
        logger.error("the authenticator %s did not answer in time", authenticator)
        return authentication_unavailable()
