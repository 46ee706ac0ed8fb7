"""From a connection to its principal, or to the 401 that says what to do.

Owns how the site's `MCP["AUTHENTICATOR"]` is asked and what becomes of its answer; knows no credential scheme itself.
Refuses to let a credential out: of an authenticator that fails, the log gets the kind of error and where, not its text.
"""

import logging
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import close_old_connections
from django.utils.module_loading import import_string

from mcp_app import databases
from mcp_app.auth.access import Access
from mcp_app.auth.anonymous import anonymous
from mcp_app.auth.challenges import insufficient_scope, malformed, unauthorized
from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import FORBIDDEN, INTERNAL_ERROR, UNAVAILABLE, Rejection, refuse, refuse_for_load

logger = logging.getLogger(__name__)

ISSUER: Final = "django"
"""The issuer of principals that are users of the site; their subject is the user's primary key."""
MAX_CHARS: Final = 255
"""What the rows hold of an issuer, a subject, a client id or a label."""


class InvalidCredentialsError(Exception):
    """Raised by an authenticator whose caller shows a credential that is not good: nobody, not even the anonymous."""


class MalformedCredentialsError(InvalidCredentialsError):
    """Raised by an authenticator whose caller shows something that no credential is written like: 400."""


class InsufficientScopeError(Exception):
    """Raised by an authenticator whose caller shows a good token that was not given for this endpoint: 403."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(*missing)
        self.missing = missing
        """Scopes, of those in `MCP["OAUTH_REQUIRED_SCOPES"]`."""


class UnacceptableRequestError(Exception):
    """Raised by an authenticator that knows its caller, and takes nothing from them that is sent like this: 403.

    The text is for the caller, and says what to do; nothing of the request is in it.
    """


class UndecidedError(Exception):
    """Raised by an authenticator that cannot say for now, as when the authorization server is away: 503."""


class UnusableAnswerError(Exception):
    """The authenticator returned what is no user, no principal and not None; the text says what it was."""


def undecided() -> Rejection:
    """503: it cannot be found out for now who asks. Not a 401, upon which clients throw a good token away."""
    message = "The server did not find out in time who asks; try again in a moment."
    return refuse_for_load(UNAVAILABLE, message, retry_after=settings.RETRY_AFTER)


def invalid_credentials(endpoint: str) -> Rejection:
    """401: what the caller shows is nobody's."""
    message = "The credentials of this call are not good, or not good any more; ask the server's operator for new ones."
    return unauthorized(message, endpoint, error="invalid_token")


def not_let_in() -> Rejection:
    """403: the caller is known, and lacks what `access_to` takes."""
    return refuse(FORBIDDEN, "You may not use this endpoint; ask its operator.")


def access_to(endpoint: str) -> Access:
    """What an endpoint takes of a caller's user to let them in at all."""
    own = settings.at(endpoint)
    return Access(tuple(own.PERMISSIONS), tuple(own.GROUPS))


def authenticate(connection: HTTPConnection) -> Principal | Rejection:
    """Ask the site's authenticator. It may use the database and may block: call this in a thread."""
    endpoint, authenticator = connection.endpoint, settings.at(connection.endpoint).AUTHENTICATOR
    try:
        principal = _principal(import_string(authenticator)(connection))
        if principal is not None and not is_let_in(principal, endpoint):
            return not_let_in()
    except MalformedCredentialsError:
        return malformed("Show one token, in one Authorization field: Bearer, a space and the token.", endpoint)
    except InvalidCredentialsError:
        return invalid_credentials(endpoint)
    except InsufficientScopeError as error:
        return insufficient_scope(error.missing, (), endpoint)
    except UnacceptableRequestError as error:
        return refuse(FORBIDDEN, str(error))
    except UndecidedError:
        return undecided()
    except databases.AWAY as error:
        logger.error("the authenticator %s waits for the database: %s", authenticator, str(error).strip())
        return undecided()
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__))
        kind = f"{type(error).__name__}: {error}" if isinstance(error, UnusableAnswerError) else type(error).__name__
        logger.error("the authenticator %s failed with %s\n%s", authenticator, kind, where)
        return refuse(INTERNAL_ERROR, "The server could not find out who asks; its operator can find why in the log.")
    finally:
        close_old_connections()
    return anonymous(connection) if principal is None else replace(principal, endpoint=endpoint)


def _principal(answer: Any) -> Principal | None:
    """The principal in what an authenticator returned; None for nobody. Raises UnusableAnswerError."""
    if answer is None or isinstance(answer, AnonymousUser):
        return None
    if isinstance(answer, AbstractBaseUser):
        return principal_of(answer) if answer.is_active else None
    if not isinstance(answer, Principal):
        if hasattr(answer, "close"):
            answer.close()  # a coroutine that nobody awaits would complain of it
        raise UnusableAnswerError(f"it returned a {type(answer).__name__}, not a user, a Principal or None")
    if not answer.issuer or not answer.subject:
        raise UnusableAnswerError("it returned a Principal without an issuer or a subject")
    if max(map(len, (answer.issuer, answer.subject, answer.client_id, answer.label))) > MAX_CHARS:
        raise UnusableAnswerError(f"it returned a Principal with more than {MAX_CHARS} characters in a field")
    return answer


def is_let_in(principal: Principal, endpoint: str) -> bool:
    """Whether the endpoint lets in the user whom a principal is of; everybody where it asks nothing of its callers."""
    access = access_to(endpoint)
    if not access.is_limited:
        return True
    user = get_user_model()._default_manager.filter(pk=principal.user_id).first() if principal.user_id else None
    return access.admits(user)


def principal_of(user: AbstractBaseUser) -> Principal:
    """Who asks where a user of the site does, and no token is in between."""
    key = str(user.pk)
    return Principal(ISSUER, subject=key, client_id="", label=user.get_username()[:MAX_CHARS], user_id=key)
