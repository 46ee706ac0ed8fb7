"""Pages of `tools/list`, each made and encoded once for all who are offered the same, until the list changes.

Whoever asks gets the list as it was then or later: its version is read for every request, and where tools take
permissions or groups those of the caller, too. Refuses to keep who may have what.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import catalogue, rows
from mcp_app.conf import settings
from mcp_app.protocol import results
from mcp_app.protocol.jsonrpc import Encoded
from mcp_app.transport.newest import Newest
from mcp_app.transport.threads import Threads

KEPT: Final = 256
"""Pages: of as many kinds of callers, endpoints and places in the list."""
LONGEST: Final = 5.0
"""Seconds after which a page is made anew: rows that were changed without this app have no new version."""

Key = tuple[str, frozenset[str] | None, str | None]
"""An endpoint, what is offered there by name (None: to everybody the same), and the name that the page comes after."""


@dataclass(frozen=True, slots=True)
class _Page:
    version: int
    made_at: float
    result: asyncio.Task[Encoded]


class ToolLists:
    """Belongs to one event loop."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._version = Newest(threads, rows.version)
        self._pages: OrderedDict[Key, _Page] = OrderedDict()
        self._same_for_everybody = cache(catalogue.is_same_for_everybody)
        """By endpoint: a process's tools are declared before it serves."""

    async def page(self, cursor: str | None, principal: Principal, server_info: Mapping[str, Any]) -> Encoded:
        """The result of a `tools/list`. Raises InvalidCursor, django.db.Error."""
        after = catalogue.place(cursor, principal)
        if self._same_for_everybody(principal.endpoint):
            version, names = await self._version.get(), None
        else:
            version, names = await self._threads.run(_version_for, principal)
        key = (principal.endpoint, names, after)
        page = self._pages.get(key)
        if page is None or page.version != version or time.monotonic() - page.made_at > LONGEST:
            # Of the very tools that it is kept under: what its caller is granted may change meanwhile.
            making = self._make(cursor, principal, server_info, names)
            page = _Page(version, time.monotonic(), asyncio.get_running_loop().create_task(making, name="mcp-page"))
            self._keep(key, page)
        try:
            return await asyncio.shield(page.result)
        except Exception:
            if self._pages.get(key) is page:
                del self._pages[key]
            raise

    async def _make(
        self, cursor: str | None, principal: Principal, server_info: Mapping[str, Any], names: frozenset[str] | None
    ) -> Encoded:
        return await self._threads.run(encoded, cursor, principal, server_info, names)

    def _keep(self, key: Key, page: _Page) -> None:
        page.result.add_done_callback(_heed)
        self._pages[key] = page
        self._pages.move_to_end(key)
        if len(self._pages) > KEPT:
            self._pages.popitem(last=False)


def _heed(made: "asyncio.Task[Encoded]") -> None:
    """Whoever waited for it may have left: what it failed by is said to whoever is there."""
    if not made.cancelled():
        made.exception()


def _version_for(principal: Principal) -> tuple[int, frozenset[str]]:
    # In this order: what is made after the version is at least as new as it.
    version = rows.version()
    return version, catalogue.names_granted(principal)


def encoded(
    cursor: str | None, principal: Principal, server_info: Mapping[str, Any], names: frozenset[str] | None = None
) -> Encoded:
    """The result, made now; of `names` alone where they are given. Blocks on the database; raises InvalidCursor."""
    page = catalogue.page(cursor, principal, names)
    # Private, whoever asks: `public` may be shared among callers, who may see different lists.
    listed = results.list_page(
        "tools", page.items, next_cursor=page.next_cursor, ttl_ms=settings.LIST_TTL_MS, cache_scope="private"
    )
    return Encoded(results.complete(listed, server_info))
