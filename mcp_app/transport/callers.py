"""Who asks over HTTP: found out before anything is done, and again while a stream of theirs stays open.

A credential can be revoked meanwhile, and nothing tells us: so its authenticator is asked anew, with the request that
opened the stream. Refuses to read a credential itself.
"""

import logging
import math
import time
from enum import Enum, auto
from typing import Final, Protocol

from mcp_app.auth.anonymous import anonymous
from mcp_app.auth.authentication import authenticate, undecided
from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import FORBIDDEN, UNAUTHORIZED, Rejection
from mcp_app.transport.threads import SilentDatabaseError, Threads

logger = logging.getLogger(__name__)

UNCONFIRMED_SECONDS: Final = 60.0
"""How long a stream stays open whose authenticator says nothing: a database that is away revokes nobody's token."""


ASK_AGAIN_SECONDS: Final = 1.0
"""When an authenticator that said nothing is asked again."""


class Standing(Enum):
    """What asking again came to."""

    CONFIRMED = auto()
    GONE = auto()
    """The credential is no longer this principal's."""
    UNKNOWN = auto()
    """The authenticator failed, or did not answer in time."""


class Caller(Protocol):
    """Who has a stream open."""

    @property
    def seconds_until_due(self) -> float:
        """When they are to be confirmed though there is nothing to tell."""

    @property
    def is_due(self) -> bool: ...

    async def confirm(self) -> Standing:
        """Ask again."""


class Trusted:
    """A caller whom nothing can be revoked of: the anonymous one, or this machine's user."""

    seconds_until_due = math.inf
    is_due = False

    async def confirm(self) -> Standing:
        return Standing.CONFIRMED


class Credentialed:
    """A caller who was let in by the site's authenticator."""

    def __init__(self, threads: Threads, connection: HTTPConnection, principal: Principal) -> None:
        self._threads = threads
        self._connection = connection
        self._principal = principal
        self._confirmed_at = time.monotonic()

    @property
    def seconds_until_due(self) -> float:
        return ASK_AGAIN_SECONDS if self.is_due else self._rest

    @property
    def is_due(self) -> bool:
        return self._rest <= 0

    async def confirm(self) -> Standing:
        answer = await who_asks(self._threads, self._connection)
        if isinstance(answer, Rejection) and answer.code not in (UNAUTHORIZED, FORBIDDEN):
            return Standing.UNKNOWN if self._unconfirmed_seconds < UNCONFIRMED_SECONDS else Standing.GONE
        if answer != self._principal or _has_less(answer, self._principal):
            return Standing.GONE
        self._confirmed_at = time.monotonic()
        return Standing.CONFIRMED

    @property
    def _rest(self) -> float:
        """Seconds for which the last answer is still good where there is nothing to tell."""
        rests_on_one: float = settings.CONFIRM_AFTER
        return rests_on_one - self._unconfirmed_seconds

    @property
    def _unconfirmed_seconds(self) -> float:
        return time.monotonic() - self._confirmed_at


def caller(threads: Threads, connection: HTTPConnection, principal: Principal) -> Caller:
    return (
        Trusted()
        if settings.at(connection.endpoint).AUTHENTICATOR is None
        else Credentialed(threads, connection, principal)
    )


def _has_less(now: Principal, before: Principal) -> bool:
    """Whether a token was given for more when its bearer was let in."""
    return now.scopes is not None and (before.scopes is None or not before.scopes <= now.scopes)


async def who_asks(threads: Threads, connection: HTTPConnection) -> Principal | Rejection:
    """The principal of a request, or the 401 or 503 that says what to do."""
    authenticator = settings.at(connection.endpoint).AUTHENTICATOR
    if authenticator is None:
        return anonymous(connection)
    try:
        return await threads.run_within(settings.AUTHENTICATION_TIMEOUT, authenticate, connection)
    except SilentDatabaseError:
        logger.error("the authenticator %s did not answer in time", authenticator)
        return undecided()
