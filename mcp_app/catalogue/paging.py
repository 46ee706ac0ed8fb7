"""Cursors of lists: the name of the last item on a page, signed.

Only cursors that this list issued are accepted. A cursor holds a name and not a number, so that
items that are added or removed between two requests cause no repeated or skipped items.
Source: 2026-07-28 server/utilities/pagination.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from django.core import signing

from mcp_app.catalogue.errors import InvalidCursor
from mcp_app.conf import settings

MAX_CURSOR_CHARS: Final = 4_096
"""More than a cursor for the longest URI."""
_SALT: Final = "mcp_app.catalogue.cursor:"


class ListItem(Protocol):
    """An item of a list."""

    def wire(self) -> dict[str, Any]:
        """Return the item's MCP object."""


L = TypeVar("L", bound=ListItem)


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list: MCP objects in order, and the cursor of the next page, if any."""

    items: list[dict[str, Any]]
    next_cursor: str | None


def list_at(endpoint: str, kind: str) -> str:
    """Return the name of an endpoint's list of one kind. A cursor is valid for one such list."""
    return f"{endpoint}/{kind}"


def page(list_name: str, listed: Iterable[L], key: Callable[[L], str], cursor: str | None) -> ListPage:
    """Return the page of `listed` after `cursor`, or the first page. Raises `InvalidCursor`.

    The items are ordered by `key`, which must be unique.
    """
    after = None if cursor is None else read(list_name, cursor)
    following = sorted((each for each in listed if after is None or key(each) > after), key=key)
    shown = following[: settings.PAGE_SIZE]
    more = len(following) > len(shown)
    return ListPage([each.wire() for each in shown], issue(list_name, key(shown[-1])) if more else None)


def issue(list_name: str, last: str) -> str:
    """Return the cursor of the page after the item named `last`."""
    return signing.dumps(last, salt=_SALT + list_name)


def read(list_name: str, cursor: object) -> str:
    """Return the name after which a page begins.

    Raises `InvalidCursor` for a cursor of another list.
    """
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARS:
        raise InvalidCursor("This list did not issue the cursor; start again without one.")
    try:
        last = signing.loads(cursor, salt=_SALT + list_name)
    except (signing.BadSignature, ValueError) as error:
        raise InvalidCursor("This list did not issue the cursor; start again without one.") from error
    return str(last)
