"""The site's own bearer tokens.

A site uses them with `MCP["AUTHENTICATOR"] = "mcp_app.auth.tokens.bearer"`. A token is shown once,
when it is made; only its digest is stored. It is found by its prefix and can be revoked at once.
The response to a token that is unknown, expired, revoked or mistyped is always the same.
"""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q, QuerySet

from mcp_app import databases
from mcp_app.auth.authentication import ISSUER, MAX_CHARS, HTTPConnection, InvalidCredentialsError, bearer_token
from mcp_app.auth.principal import Principal, user_of
from mcp_app.models import Token
from mcp_app.models.utc_date_time import Now

logger = logging.getLogger(__name__)

AUTHENTICATOR: Final = f"{__name__}.bearer"
"""The value of `MCP["AUTHENTICATOR"]` on a site that accepts these tokens."""
TOKEN_MARK: Final = "mcp"  # noqa: S105 - not a secret
"""The beginning of every token, for scanners that search for leaked ones."""
PREFIX_BYTES: Final = 6
SECRET_BYTES: Final = 32
MAX_DAYS: Final = 3650
"""The longest time until a token expires."""
LAST_USED_PRECISION: Final = timedelta(minutes=1)
"""The precision of `last_used_at`. A write on every request would cost too much."""

_PREFIX: Final = rf"[0-9a-f]{{{2 * PREFIX_BYTES}}}"
_TOKEN: Final = re.compile(rf"{TOKEN_MARK}_({_PREFIX})_[A-Za-z0-9_-]{{43}}")
_DUMMY_DIGEST: Final = "0" * 64
"""Compared if no token has the prefix, so that the comparison takes the same time."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token. Its text is available only here."""

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
) -> IssuedToken:
    """Create a token for a user. `by` is the creator; `scopes=None` sets no limit."""
    prefix = secrets.token_hex(PREFIX_BYTES)
    text = f"{TOKEN_MARK}_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
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
    return IssuedToken(row, text)


def revoke(prefixes: Collection[str], *, by: str) -> int:
    """Revoke the tokens with these prefixes and return how many were in force.

    Open responses to their callers end.
    """
    in_force = Token.objects.filter(prefix__in=prefixes, revoked_at__isnull=True)
    return in_force.update(revoked_at=Now(), revoked_by=by[:MAX_CHARS])


def prefix_of(text: str) -> str:
    """Return the prefix of a token. A text that is not a token is returned unchanged."""
    token = _TOKEN.fullmatch(text)
    return token[1] if token else text


def bearer(connection: HTTPConnection) -> Principal | None:
    """Return the principal of the token in `Authorization: Bearer …`, or `None` without one.

    Each token is a client of its own (`Principal.client_id`). Raises `InvalidCredentialsError`.
    """
    token_text = bearer_token(connection)
    if token_text is None:
        return None
    row = _find_token(token_text)
    if row is None:
        raise InvalidCredentialsError
    user = user_of(row.user_id)
    if user is None or not user.is_active:
        raise InvalidCredentialsError
    _record_use(row)
    return Principal(
        ISSUER,
        subject=row.user_id,
        client_id=row.prefix,
        label=user.get_username()[:MAX_CHARS],
        user_id=row.user_id,
        scopes=_scopes(row),
    )


def is_from_bearer(principal: Principal) -> bool:
    """Return whether `bearer` made this principal.

    Its client id is then the prefix of its token.
    """
    return principal.issuer == ISSUER and re.fullmatch(_PREFIX, principal.client_id) is not None


def granted_scopes(principal: Principal) -> frozenset[str] | None:
    """Return the current scopes of the token of a principal that `bearer` made.

    Raises `InvalidCredentialsError` if the token is no longer in force.
    """
    row = _in_force().filter(prefix=principal.client_id, user_id=principal.subject).first()
    if row is None:
        raise InvalidCredentialsError
    return _scopes(row)


def _find_token(token_text: str) -> Token | None:
    """Return the token in force that has this text."""
    token = _TOKEN.fullmatch(token_text)
    if token is None:
        return None
    row = _in_force().filter(prefix=token[1]).first()
    proved = hmac.compare_digest(_digest(token[0]), _DUMMY_DIGEST if row is None else row.digest)
    return row if proved else None


def _in_force() -> QuerySet[Token]:
    return Token.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), revoked_at__isnull=True)


def _scopes(row: Token) -> frozenset[str] | None:
    return None if row.scopes is None else frozenset(row.scopes)


def _record_use(row: Token) -> None:
    if row.last_used_at is None or datetime.now(UTC) - row.last_used_at >= LAST_USED_PRECISION:
        try:
            Token.objects.filter(pk=row.pk).update(last_used_at=Now())
        except databases.AWAY as error:  # read-only for now; the next use is recorded
            logger.warning("the last use of token %s could not be stored: %s", row.prefix, str(error).strip())


def _digest(text: str) -> str:
    # Neither salt nor stretching is needed, because 256 random bits cannot be guessed.
    return hashlib.sha256(text.encode()).hexdigest()
