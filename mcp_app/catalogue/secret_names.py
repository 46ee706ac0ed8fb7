"""Which fields are secrets, by what they are called: what no form asks for and no header repeats.

Refuses to look at values. Source: 2026-07-28 client/elicitation "Security Considerations", server/tools "x-mcp-header".
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

_SECRETS: Final = frozenset(
    {"password", "passwd", "passphrase", "passcode", "secret", "secrets", "token", "credential", "credentials"}
    | {"apikey", "cvv", "cvc", "pin"}
)
_SECRET_PAIRS: Final = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key")})
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_secret(name: str, field: Mapping[str, Any]) -> bool:
    """Whether a property of a JSON Schema is one: by its name, its title, or as its schema says."""
    hidden = field.get("format") == "password" or bool(field.get("writeOnly"))
    return hidden or _is_called_one(name) or _is_called_one(field.get("title"))


def _is_called_one(text: Any) -> bool:
    words = [word.lower() for word in _WORD.findall(str(text or ""))]
    return not _SECRETS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words))
