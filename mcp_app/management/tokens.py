"""`mcp token`: creates, lists and revokes bearer tokens. A token is printed once, when it is created."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model

from mcp_app.auth import local, tokens
from mcp_app.models import Token
from mcp_app.safe_text import safe_json_text, safe_text

NONE: Final = "No tokens. `mcp token create USERNAME --name NAME` makes one."

Say = Callable[[str], None]


class TokenError(Exception):
    """The command failed. The message explains what to do."""


def create(options: Mapping[str, Any], say: Say) -> None:
    """Create a token for an active user. Raises `TokenError`."""
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: options["username"]}).first()
    if user is None or not user.is_active:
        raise TokenError(f"This site has no active user {options['username']!r}.")
    expires_at = datetime.now(UTC) + timedelta(days=options["days"]) if options["days"] else None
    by = local.local_principal().label
    issued = tokens.issue(user, options["name"], by=by, scopes=options["scopes"], expires_at=expires_at)
    say(issued.text)


def show(options: Mapping[str, Any], say: Say) -> None:
    """Print all tokens by their prefixes, newest first."""
    if options["as_json"]:
        say(safe_json_text([_as_json(row) for row in Token.objects.all()], indent=2))
        return
    listed = list(Token.objects.all())
    for row in listed:
        user, name = safe_text(row.user_label), safe_text(row.name)
        say(f"{row.prefix}  {_state(row):<22}  {user}  {name}  {_scopes(row)}".rstrip())
    if not listed:
        say(NONE)


def revoke(options: Mapping[str, Any], say: Say) -> None:
    """Revoke a token. Raises `TokenError` if no such token is valid."""
    prefix = tokens.prefix_of(options["prefix"])
    if not tokens.revoke([prefix], by=local.local_principal().label):
        raise TokenError(f"No unrevoked token has the prefix {prefix}; `mcp token list` shows the prefixes.")
    say(f"{prefix}: revoked")


def _as_json(row: Token) -> dict[str, Any]:
    times = {name: getattr(row, name) for name in ("created_at", "expires_at", "last_used_at", "revoked_at")}
    columns = {"prefix": row.prefix, "user": row.user_label, "name": row.name, "scopes": row.scopes}
    return {**columns, **{name: None if time is None else time.isoformat() for name, time in times.items()}}


def _state(row: Token) -> str:
    if row.revoked_at is not None:
        return f"revoked {_day(row.revoked_at)}"
    if row.expires_at is not None:
        word = "expired" if row.expires_at <= datetime.now(UTC) else "until"
        return f"{word} {_day(row.expires_at)}"
    return f"used {_day(row.last_used_at)}" if row.last_used_at else "never used"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _scopes(row: Token) -> str:
    return "" if row.scopes is None else f"[{' '.join(row.scopes)}]"
