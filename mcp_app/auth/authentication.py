"""Turn an HTTP connection into its principal, or into a rejection.

Theory of operation:

    1. `authenticate` calls the site's `MCP["AUTHENTICATOR"]` with an `HTTPConnection`.
    2. The authenticator returns a user of the site, a `Principal`, or `None` if the request has no
       credential. It raises one of the errors below for a credential that it rejects.
    3. For `None`, `authenticate_anonymous` decides by `MCP["ALLOW_ANONYMOUS"]`.
    4. For a user, the endpoint's `PERMISSIONS` and `GROUPS` are checked.

    error of the authenticator      response
    MalformedCredentialsError       400
    InvalidCredentialsError         401
    InsufficientScopeError          403, with the scopes that are missing
    UnacceptableRequestError        403
    UndecidedError, no database     503
    any other                       500

This module knows no kind of credential except the syntax of `Authorization: Bearer`. Credentials
never reach the log: if an authenticator fails, the log gets the type of the error and its
traceback, not its text.
"""

import ipaddress
import logging
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from django.conf import settings as django_settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import close_old_connections
from django.utils.module_loading import import_string

from mcp_app import databases
from mcp_app.auth.challenges import insufficient_scope, malformed, unauthorized
from mcp_app.auth.principal import ANONYMOUS, Access, Principal, user_of
from mcp_app.conf import DEFAULT_ENDPOINT, settings
from mcp_app.protocol.errors import FORBIDDEN, INTERNAL_ERROR, UNAVAILABLE, Rejection, refuse, refuse_for_load

logger = logging.getLogger(__name__)
ISSUER: Final = "django"
"""The issuer of principals that are users of the site. Their subject is the user's primary key."""
MAX_CHARS: Final = 255
"""Length of the database columns for issuer, subject, client id and label."""
MAX_NETWORK_CHARS: Final = 64
"""Length of the database column."""
LOCAL: Final = "local"
"""The value of `ALLOW_ANONYMOUS` that allows anonymous calls from this machine only."""
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Fields that proxies add, as do tunnels that expose a developer's port to the internet."""
_BEARER: Final = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_SCHEME: Final = re.compile(r"Bearer(?: |$)", re.IGNORECASE)


class HeaderFields(Mapping[str, str]):
    """The header fields by name, in any case.

    The values of a repeated field are joined by `", "`, and cookies by `"; "` (RFC 9113
    §8.2.3).
    """

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @cached_property
    def _fields(self) -> dict[str, str]:
        """Parse the fields on first use, because many requests never need them."""
        fields: dict[str, str] = {}
        for name, value in self._raw:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
            separator = "; " if key == "cookie" else ", "
            fields[key] = f"{fields[key]}{separator}{text}" if key in fields else text
        return fields

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self)}>"


@dataclass(frozen=True, slots=True)
class HTTPConnection:
    """The parts of an HTTP request that identify its caller."""

    headers: HeaderFields
    remote_address: str
    """The peer's IP address, or an empty string if the server does not know it. Behind a proxy it
    is the proxy's address.
    """
    path: str
    endpoint: str = DEFAULT_ENDPOINT
    """The endpoint's name."""
    method: str = "POST"
    scheme: str = "https"
    """The scheme that the server received; behind a proxy it is the proxy's."""


class InvalidCredentialsError(Exception):
    """Raised by an authenticator for a credential that is not valid: 401.

    The caller is rejected even if anonymous calls are allowed.
    """


class MalformedCredentialsError(InvalidCredentialsError):
    """Raised by an authenticator for a text that is no credential at all: 400."""


class InsufficientScopeError(Exception):
    """Raised by an authenticator for a valid token without the scopes of this endpoint: 403."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(*missing)
        self.missing = missing
        """The scopes of `MCP["OAUTH_REQUIRED_SCOPES"]` that the token lacks."""


class UnacceptableRequestError(Exception):
    """Raised by an authenticator that knows the caller but rejects the request: 403.

    The text is sent to the caller. It must explain what to do and repeat nothing of the request.
    """


class UndecidedError(Exception):
    """Raised by an authenticator that cannot decide now: 503.

    For example, its authorization server may be down.
    """


class UnusablePrincipalError(Exception):
    """Raised if an authenticator returns anything but a user, a `Principal` or `None`."""


def authenticate(connection: HTTPConnection) -> Principal | Rejection:
    """Call the site's authenticator.

    It may block and use the database, so call this in a thread.
    """
    endpoint, authenticator = connection.endpoint, settings.at(connection.endpoint).AUTHENTICATOR
    try:
        principal = _read_principal(import_string(authenticator)(connection))
        if principal is not None and not has_access(principal, endpoint):
            return access_denied()
    except MalformedCredentialsError:
        return malformed("Send exactly one token, in one header: `Authorization: Bearer TOKEN`.", endpoint)
    except InvalidCredentialsError:
        return invalid_credentials(endpoint)
    except InsufficientScopeError as error:
        return insufficient_scope(error.missing, (), endpoint)
    except UnacceptableRequestError as error:
        return refuse(FORBIDDEN, str(error))
    except UndecidedError:
        return authentication_unavailable()
    except databases.AWAY as error:
        logger.error(
            "the authenticator %s could not reach the database, so a call was refused: %s",
            authenticator,
            str(error).strip(),
        )
        return authentication_unavailable()
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__))
        kind = f"{type(error).__name__}: {error}" if isinstance(error, UnusablePrincipalError) else type(error).__name__
        logger.error("the authenticator %s failed with %s\n%s", authenticator, kind, where)
        return refuse(
            INTERNAL_ERROR, "The server failed to authenticate this call. Its operator can find the reason in the log."
        )
    finally:
        close_old_connections()
    return authenticate_anonymous(connection) if principal is None else replace(principal, endpoint=endpoint)


def _read_principal(answer: Any) -> Principal | None:
    """Return the principal in an authenticator's return value, or `None` without one.

    Raises `UnusablePrincipalError`.
    """
    if answer is None or isinstance(answer, AnonymousUser):
        return None
    if isinstance(answer, AbstractBaseUser):
        return principal_of(answer) if answer.is_active else None
    if not isinstance(answer, Principal):
        if hasattr(answer, "close"):
            answer.close()  # Python warns about a coroutine that is never awaited
        raise UnusablePrincipalError(f"it returned a {type(answer).__name__}, not a user, a Principal or None")
    if not answer.issuer or not answer.subject:
        raise UnusablePrincipalError("it returned a Principal without an issuer or a subject")
    if max(map(len, (answer.issuer, answer.subject, answer.client_id, answer.label))) > MAX_CHARS:
        raise UnusablePrincipalError(f"it returned a Principal with more than {MAX_CHARS} characters in a field")
    return answer


def principal_of(user: AbstractBaseUser) -> Principal:
    """Return the principal of a user of the site who calls without a token."""
    key = str(user.pk)
    return Principal(ISSUER, subject=key, client_id="", label=user.get_username()[:MAX_CHARS], user_id=key)


def authenticate_anonymous(connection: HTTPConnection) -> Principal | Rejection:
    """Return the anonymous principal, or a 401 with a challenge if anonymous calls are not allowed.

    Source: 2026-07-28 basic/authorization.
    """
    endpoint, own = connection.endpoint, settings.at(connection.endpoint)
    if is_public(endpoint) or (allows_anonymous(endpoint) and is_from_this_machine(connection)):
        return replace(ANONYMOUS, endpoint=endpoint, network=network_of(connection.remote_address))
    if own.AUTHENTICATOR is not None:
        message = "This call has no valid credentials; send the ones that the server's operator gave you."
    elif allows_anonymous(endpoint):
        message = (
            "This server accepts calls from its own machine only. Its operator can enable tokens "
            'with MCP["AUTHENTICATOR"] = '
            '"mcp_app.auth.tokens.bearer".'
        )
    else:
        message = (
            'This server accepts no anonymous calls. Its operator can enable tokens with MCP["AUTHENTICATOR"] = '
            '"mcp_app.auth.tokens.bearer", or admit everybody with MCP["ALLOW_ANONYMOUS"] = True.'
        )
    return unauthorized(message, endpoint)


def allows_anonymous(endpoint: str) -> bool:
    """Return whether the endpoint allows calls without a credential, if only from this machine."""
    own = settings.at(endpoint)
    if own.PERMISSIONS or own.GROUPS:
        return False
    if own.ALLOW_ANONYMOUS is None:
        return bool(django_settings.DEBUG) and own.AUTHENTICATOR is None
    return own.ALLOW_ANONYMOUS is True or own.ALLOW_ANONYMOUS == LOCAL


def is_public(endpoint: str) -> bool:
    """Return whether the endpoint allows calls without a credential from anywhere."""
    return settings.at(endpoint).ALLOW_ANONYMOUS is True and allows_anonymous(endpoint)


def is_from_this_machine(connection: HTTPConnection) -> bool:
    """Return whether a connection comes from this machine and not through a proxy on it."""
    try:
        address = ipaddress.ip_address(connection.remote_address)
    except ValueError:  # the server does not know the address
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback and not any(name in connection.headers for name in _FORWARDED)


def network_of(address: str) -> str:
    """Return the network by which anonymous callers at an address are counted.

    It is the address for IPv4, and the /64 for IPv6, because a host with one IPv6 address usually
    controls its whole /64. An address that is not an IP address, such as the path of a Unix socket,
    is returned unchanged.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:MAX_NETWORK_CHARS]
    mapped = getattr(found, "ipv4_mapped", None) or found
    if isinstance(mapped, ipaddress.IPv4Address):
        return str(mapped)
    return f"{ipaddress.IPv6Address(int(mapped) >> 64 << 64)}/64"


def endpoint_access(endpoint: str) -> Access:
    """Return what a user needs in order to use an endpoint at all."""
    own = settings.at(endpoint)
    return Access(tuple(own.PERMISSIONS), tuple(own.GROUPS))


def has_access(principal: Principal, endpoint: str) -> bool:
    """Return whether the endpoint admits the user of a principal."""
    access = endpoint_access(endpoint)
    return not access.is_limited or access.admits(user_of(principal.user_id))


def bearer_token(connection: HTTPConnection) -> str | None:
    """Return the token of `Authorization: Bearer …`, or `None` without that field.

    Raises `MalformedCredentialsError` if a Bearer field holds no token or several, and
    `InvalidCredentialsError` for any other kind of credential.
    """
    credentials = connection.headers.get("authorization")
    if credentials is None:
        return None
    given = _BEARER.fullmatch(credentials)
    if given is None:
        raise MalformedCredentialsError if _SCHEME.match(credentials) else InvalidCredentialsError
    return given[1]


def authentication_unavailable() -> Rejection:
    """Return a 503: the caller cannot be authenticated now.

    Clients discard a valid token when they get a 401, so this must not be one.
    """
    message = "The server could not authenticate this call in time; try again in a moment."
    return refuse_for_load(UNAVAILABLE, message, retry_after=settings.RETRY_AFTER)


def invalid_credentials(endpoint: str) -> Rejection:
    """Return a 401: the credential is not valid."""
    message = "The credentials of this call are invalid or have expired; ask the server's operator for new ones."
    return unauthorized(message, endpoint, error="invalid_token")


def access_denied() -> Rejection:
    """Return a 403: the caller is known but does not meet `endpoint_access`."""
    return refuse(FORBIDDEN, "You do not have access to this endpoint; ask the server's operator for it.")
