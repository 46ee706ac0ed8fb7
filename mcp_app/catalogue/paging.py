"""Cursors: where a page of a list ended, signed, so that only what this list issued is a cursor.

A cursor holds the name of the last item, not its number: pages neither repeat nor skip what stays, whatever is added or
taken away between them. Source: 2026-07-28 server/utilities/pagination.
"""

from typing import Final

from django.core import signing

from mcp_app.catalogue.errors import InvalidCursor

MAX_CURSOR_CHARS: Final = 1_024
_SALT: Final = "mcp_app.catalogue.cursor:"


def issue(list_name: str, last: str) -> str:
    """The cursor of the page after the item named `last`."""
    return signing.dumps(last, salt=_SALT + list_name)


def read(list_name: str, cursor: object) -> str:
    """The name after which a page begins. Raises `InvalidCursor` for all but what `issue` gave for this list."""
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARS:
        raise InvalidCursor("The cursor is not one that this list issued; start again without a cursor.")
    try:
        last = signing.loads(cursor, salt=_SALT + list_name)
    except (signing.BadSignature, ValueError) as error:
        raise InvalidCursor("The cursor is not one that this list issued; start again without a cursor.") from error
    return str(last)
