"""Cursors: where a page of a list ended, signed, so that only what this list issued is a cursor.

A cursor holds the name of the last item, not its number: pages neither repeat nor skip what stays, whatever is added or
taken away between them. Source: 2026-07-28 server/utilities/pagination.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from django.core import signing

from mcp_app.catalogue.errors import InvalidCursor
from mcp_app.conf import settings

MAX_CURSOR_CHARS: Final = 4_096
"""More than the cursor after the longest URI."""
_SALT: Final = "mcp_app.catalogue.cursor:"


class Listed(Protocol):
    """An item of a list."""

    def wire(self) -> dict[str, Any]:
        """As the protocol has it."""


L = TypeVar("L", bound=Listed)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list: MCP objects in its order, and the cursor of the next page (None at the end)."""

    items: list[dict[str, Any]]
    next_cursor: str | None


def list_at(endpoint: str, kind: str) -> str:
    """The name of an endpoint's list of one kind: no cursor of one is good for another."""
    return f"{endpoint}/{kind}"


def page(list_name: str, listed: Iterable[L], key: Callable[[L], str], cursor: str | None) -> Page:
    """A page of `listed`, ordered by its unique `key`, after `cursor` where there is one. Raises `InvalidCursor`."""
    after = None if cursor is None else read(list_name, cursor)
    following = sorted((each for each in listed if after is None or key(each) > after), key=key)
    shown = following[: settings.PAGE_SIZE]
    more = len(following) > len(shown)
    return Page([each.wire() for each in shown], issue(list_name, key(shown[-1])) if more else None)


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
