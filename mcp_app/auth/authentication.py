"""From a connection to its principal, or to the 401 that says what to do.

Owns how the site's `MCP["AUTHENTICATOR"]` is asked and what becomes of its answer; knows no credential scheme itself.
Refuses to let a credential out: of an authenticator that fails, the log gets the kind of error and where, not its text.
"""

import logging
import traceback
from typing import Any, Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import close_old_connections
from django.utils.module_loading import import_string

from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.conf import settings
from mcp_app.protocol.errors import INTERNAL_ERROR, UNAUTHORIZED, HTTPFields, Rejection, refuse

logger = logging.getLogger(__name__)

ISSUER: Final = "django"
"""The issuer of principals that are users of the site; their subject is the user's primary key."""
MAX_CHARS: Final = 255
"""What the rows hold of an issuer, a subject, a client id or a label."""
CHALLENGE: Final[HTTPFields] = ((b"www-authenticate", b"Bearer"),)


class UnusableAnswerError(Exception):
    """The authenticator returned what is no user, no principal and not None; the text says what it was."""


def anonymous() -> Principal | Rejection:
    """Who asks without a credential. Where nobody may: 401 with a challenge (2026-07-28 basic/authorization)."""
    if settings.ALLOW_ANONYMOUS:
        return ANONYMOUS
    if settings.AUTHENTICATOR is not None:
        message = "The server does not accept this call's credentials, or it has none; send those of its operator."
        return refuse(UNAUTHORIZED, message, headers=CHALLENGE)
    return refuse(
        UNAUTHORIZED,
        'This server serves no anonymous calls; its operator can allow them with MCP = {"ALLOW_ANONYMOUS": True}.',
        headers=CHALLENGE,
    )


def authenticate(connection: HTTPConnection) -> Principal | Rejection:
    """Ask the site's authenticator. It may use the database and may block: call this in a thread."""
    try:
        principal = _principal(import_string(settings.AUTHENTICATOR)(connection))
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__))
        kind = f"{type(error).__name__}: {error}" if isinstance(error, UnusableAnswerError) else type(error).__name__
        logger.error("the authenticator %s failed with %s\n%s", settings.AUTHENTICATOR, kind, where)
        return refuse(INTERNAL_ERROR, "The server could not find out who asks; its operator can find why in the log.")
    finally:
        close_old_connections()
    return anonymous() if principal is None else principal


def _principal(answer: Any) -> Principal | None:
    """The principal in what an authenticator returned; None for nobody. Raises UnusableAnswerError."""
    if answer is None or isinstance(answer, AnonymousUser):
        return None
    if isinstance(answer, AbstractBaseUser):
        return _of_user(answer) if answer.is_active else None
    if not isinstance(answer, Principal):
        if hasattr(answer, "close"):
            answer.close()  # a coroutine that nobody awaits would complain of it
        raise UnusableAnswerError(f"it returned a {type(answer).__name__}, not a user, a Principal or None")
    if not answer.issuer or not answer.subject:
        raise UnusableAnswerError("it returned a Principal without an issuer or a subject")
    if max(map(len, (answer.issuer, answer.subject, answer.client_id, answer.label))) > MAX_CHARS:
        raise UnusableAnswerError(f"it returned a Principal with more than {MAX_CHARS} characters in a field")
    return answer


def _of_user(user: AbstractBaseUser) -> Principal:
    key = str(user.pk)
    return Principal(ISSUER, subject=key, client_id="", label=user.get_username()[:MAX_CHARS], user_id=key)
