"""Bearer tokens of the site's own: made once, kept as a digest, found by their prefix, revoked at once.

`bearer` is an authenticator that a site may name in `MCP["AUTHENTICATOR"]`. Refuses to keep a token or to show it
again, and to tell one that is unknown from one that is expired, revoked or misspelt.
"""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from mcp_app import databases
from mcp_app.auth.authentication import ISSUER, MAX_CHARS, InvalidCredentialsError
from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.credentials import bearer_token
from mcp_app.auth.principal import Principal
from mcp_app.models import Token

logger = logging.getLogger(__name__)

MARK: Final = "mcp"
"""What every token begins with, for those who search for leaked ones."""
PREFIX_BYTES: Final = 6
SECRET_BYTES: Final = 32
MAX_DAYS: Final = 3650
"""Until a token expires, if it does."""
USE_NOTED_EVERY: Final = timedelta(minutes=1)
"""How exact `last_used_at` is: a write for each request would be dear."""

_PREFIX: Final = rf"[0-9a-f]{{{2 * PREFIX_BYTES}}}"
_TOKEN: Final = re.compile(rf"{MARK}_({_PREFIX})_[A-Za-z0-9_-]{{43}}")
_NOBODYS: Final = "0" * 64
"""Compared where no token has the prefix, so that it takes as long."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A token that was just made, with what is shown this once."""

    row: Token
    text: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.row}>"


def issue(
    user: AbstractBaseUser,
    name: str,
    *,
    by: str,
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> Issued:
    """Make one for a user. `by`: who does; `scopes` None: not limited by any."""
    prefix = secrets.token_hex(PREFIX_BYTES)
    text = f"{MARK}_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    row = Token.objects.create(
        prefix=prefix,
        digest=_digest(text),
        name=name[:MAX_CHARS],
        user_id=str(user.pk),
        user_label=user.get_username()[:MAX_CHARS],
        scopes=None if scopes is None else sorted(set(scopes)),
        created_by=by[:MAX_CHARS],
        expires_at=expires_at,
    )
    return Issued(row, text)


def revoke(prefixes: Collection[str], *, by: str) -> int:
    """From now on they are nobody's; how many were somebody's. Open streams of theirs end before they tell anything."""
    in_force = Token.objects.filter(prefix__in=prefixes, revoked_at__isnull=True)
    return in_force.update(revoked_at=Now(), revoked_by=by[:MAX_CHARS])


def prefix_of(text: str) -> str:
    """The prefix in a token; a text that is none stays as it is."""
    token = _TOKEN.fullmatch(text)
    return token[1] if token else text


def bearer(connection: HTTPConnection) -> Principal | None:
    """Who the `Authorization: Bearer …` header of a request proves to ask; None without one.

    A client of its own (`Principal.client_id`) for each token. Raises InvalidCredentialsError.
    """
    shown = bearer_token(connection)
    if shown is None:
        return None
    row = _find(shown)
    if row is None:
        raise InvalidCredentialsError
    user = get_user_model()._default_manager.filter(pk=row.user_id).first()
    if user is None or not user.is_active:
        raise InvalidCredentialsError
    _note_use(row)
    return Principal(
        ISSUER,
        subject=row.user_id,
        client_id=row.prefix,
        label=user.get_username()[:MAX_CHARS],
        user_id=row.user_id,
        scopes=_scopes(row),
    )


def is_bearer(principal: Principal) -> bool:
    """Whether it was `bearer` that let this principal in, by the token whose prefix its client is named by."""
    return principal.issuer == ISSUER and re.fullmatch(_PREFIX, principal.client_id) is not None


def given(principal: Principal) -> frozenset[str] | None:
    """What the token of a principal that `is_bearer` is given for now, without being shown it.

    Raises InvalidCredentialsError where it is in force no more.
    """
    row = _in_force().filter(prefix=principal.client_id, user_id=principal.subject).first()
    if row is None:
        raise InvalidCredentialsError
    return _scopes(row)


def _find(shown: str) -> Token | None:
    """The token in force that this is."""
    token = _TOKEN.fullmatch(shown)
    if token is None:
        return None
    row = _in_force().filter(prefix=token[1]).first()
    proved = hmac.compare_digest(_digest(token[0]), _NOBODYS if row is None else row.digest)
    return row if proved else None


def _in_force() -> QuerySet[Token]:
    return Token.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), revoked_at__isnull=True)


def _scopes(row: Token) -> frozenset[str] | None:
    return None if row.scopes is None else frozenset(row.scopes)


def _note_use(row: Token) -> None:
    if row.last_used_at is None or timezone.now() - row.last_used_at >= USE_NOTED_EVERY:
        try:
            Token.objects.filter(pk=row.pk).update(last_used_at=Now())
        except databases.AWAY as error:  # that takes no writes for now: its next use is noted
            logger.warning("the use of token %s is not noted: %s", row.prefix, str(error).strip())


def _digest(text: str) -> str:
    # No salt and no stretching: there is nothing to guess in 256 random bits.
    return hashlib.sha256(text.encode()).hexdigest()
