"""Recognizes fields for secrets by their names.

Forms must not ask for secrets, and headers must not repeat them. Values are not examined.
Source: 2026-07-28 client/elicitation "Security Considerations", server/tools "x-mcp-header".
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

_SECRETS: Final = frozenset(
    {"password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets", "token"}
    | {"credential", "credentials", "apikey", "apikeys", "cvv", "cvc", "pin", "iban"}
)
_SECRET_PAIRS: Final = frozenset(
    {(kind, key) for kind in ("api", "private", "access", "secret") for key in ("key", "keys")}
    | {(kind, "tokens") for kind in ("access", "api", "auth", "bearer", "refresh")}
    | {("card", "number"), ("credit", "card"), ("debit", "card")}
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_secret(name: str, field: Mapping[str, Any]) -> bool:
    """Return whether a property holds a secret, by its name, its title or its schema."""
    if field.get("format") == "password" or field.get("writeOnly"):
        return True
    holds_one = field.get("type") != "boolean"  # a boolean may be an option about a secret
    return holds_one and (_is_called_one(name) or _is_called_one(field.get("title")))


def _is_called_one(text: Any) -> bool:
    words = [word.lower() for word in _WORD.findall(str(text or ""))]
    return not _SECRETS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words))
