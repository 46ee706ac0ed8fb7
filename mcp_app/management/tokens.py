"""`mcp token`: bearer tokens on the command line. Prints a token once, when it is made; never again, and in no log."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.utils import timezone

from mcp_app.auth import local, tokens
from mcp_app.lifecycle.inert import inert, inert_json
from mcp_app.models import Token

NONE: Final = "No tokens. `mcp token create USERNAME --name NAME` makes one."

Say = Callable[[str], None]


class TokenError(Exception):
    """It could not be done; the text says what to do."""


def create(options: Mapping[str, Any], say: Say) -> None:
    """Make one for an active user. Raises TokenError."""
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: options["username"]}).first()
    if user is None or not user.is_active:
        raise TokenError(f"This site has no active user {options['username']!r}.")
    expires_at = timezone.now() + timedelta(days=options["days"]) if options["days"] else None
    by = local.local_principal().label
    issued = tokens.issue(user, options["name"], by=by, scopes=options["scopes"], expires_at=expires_at)
    say(issued.text)


def show(options: Mapping[str, Any], say: Say) -> None:
    """All of them, newest first, by their prefixes."""
    if options["as_json"]:
        say(inert_json([_as_json(row) for row in Token.objects.all()], indent=2))
        return
    listed = list(Token.objects.all())
    for row in listed:
        say(f"{row.prefix}  {_state(row):<22}  {inert(row.user_label)}  {inert(row.name)}  {_scopes(row)}".rstrip())
    if not listed:
        say(NONE)


def revoke(options: Mapping[str, Any], say: Say) -> None:
    """Revoke one. Raises TokenError where there is none in force."""
    prefix = tokens.prefix_of(options["prefix"])
    if not tokens.revoke([prefix], by=local.local_principal().label):
        raise TokenError(f"No token in force begins with {prefix}; `mcp token list` shows them.")
    say(f"{prefix}: revoked")


def _as_json(row: Token) -> dict[str, Any]:
    times = {name: getattr(row, name) for name in ("created_at", "expires_at", "last_used_at", "revoked_at")}
    told = {"prefix": row.prefix, "user": row.user_label, "name": row.name, "scopes": row.scopes}
    return {**told, **{name: None if time is None else time.isoformat() for name, time in times.items()}}


def _state(row: Token) -> str:
    if row.revoked_at is not None:
        return f"revoked {_day(row.revoked_at)}"
    if row.expires_at is not None:
        word = "expired" if row.expires_at <= timezone.now() else "until"
        return f"{word} {_day(row.expires_at)}"
    return f"used {_day(row.last_used_at)}" if row.last_used_at else "never used"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _scopes(row: Token) -> str:
    return "" if row.scopes is None else f"[{' '.join(row.scopes)}]"
