"""Finds a request by its id or the beginning of its id."""

import re
from typing import Final
from uuid import UUID

from mcp_app.models import Request

SHOWN: Final = 23
"""The length of an id in a table: the time, and 26 random bits that distinguish calls of one moment."""
_BEGINNING: Final = re.compile(r"[0-9a-f]{4,31}")
_FIRST: Final = "00000000000070008000000000000000"
_LAST: Final = "ffffffffffff7fffbfffffffffffffff"
"""The first and the last UUID of version 7, as requests have. MariaDB sorts other versions in another order."""
_MAX_NAMED: Final = 5


class UnclearIdError(Exception):
    """Several requests have ids that begin like this. The message names some."""


def find(text: str) -> UUID | None:
    """Return the id of the request, or `None` if there is none. Raises `UnclearIdError`."""
    try:
        return UUID(text)
    except ValueError:
        digits = text.replace("-", "").lower()
    if not _BEGINNING.fullmatch(digits):
        return None
    between = [UUID(digits + end[len(digits) :]) for end in (_FIRST, _LAST)]
    found = list(Request.objects.filter(pk__range=between).order_by("pk").values_list("pk", flat=True)[:_MAX_NAMED])
    if len(found) > 1:
        raise UnclearIdError(f"Several requests begin with {text}: write more of {', '.join(map(str, found))}.")
    return found[0] if found else None
