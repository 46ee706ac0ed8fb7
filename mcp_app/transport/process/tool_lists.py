"""Caches the pages of `tools/list`, encoded, until the list changes.

All callers with rights to the same tools share a page. The version of the list is read for every
request, so that no caller gets an older list than the one at the time of the request. Only changes
that were made without this app, such as by SQL, appear up to `MAX_AGE_SECONDS` late. If tools need
permissions or groups, the caller's are read for every request as well; they are never cached.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import catalogue, tool_rows
from mcp_app.conf import settings
from mcp_app.protocol import results
from mcp_app.protocol.jsonrpc import Encoded
from mcp_app.transport.process.threads import SingleFlight, Threads

MAX_PAGES: Final = 256
MAX_AGE_SECONDS: Final = 5.0
"""A page is made again after this time, because changes made without this app do not change the
version."""

Key = tuple[str, frozenset[str] | None, str | None]
"""The endpoint, the names of the tools that the caller has the rights for (`None` if no tool needs
any), and the name after which the page begins."""


@dataclass(frozen=True, slots=True)
class _Page:
    version: int
    made_at: float
    result: asyncio.Task[Encoded]


class ToolLists:
    """The cache of a server process. All methods are called on one event loop."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._version = SingleFlight(threads, tool_rows.version)
        self._pages: OrderedDict[Key, _Page] = OrderedDict()
        self._same_for_everybody = cache(catalogue.is_same_for_everybody)
        """By endpoint. Never changes, because all tools are declared before the process serves."""

    async def page(self, cursor: str | None, principal: Principal, server_info: Mapping[str, Any]) -> Encoded:
        """Return the result of a `tools/list`. Raises `InvalidCursor` and `django.db.Error`."""
        after = catalogue.place(cursor, principal)
        if self._same_for_everybody(principal.endpoint):
            version, names = await self._version.get(), None
        else:
            version, names = await self._threads.run(_version_for, principal)
        key = (principal.endpoint, names, after)
        page = self._pages.get(key)
        if page is None or page.version != version or time.monotonic() - page.made_at > MAX_AGE_SECONDS:
            # The page is made of exactly the tools in its key, because the caller's rights may
            # change in between.
            making = self._threads.run(encoded, cursor, principal, server_info, names)
            page = _Page(version, time.monotonic(), asyncio.get_running_loop().create_task(making, name="mcp-page"))
            page.result.add_done_callback(_retrieve_exception)
            self._pages[key] = page
            self._pages.move_to_end(key)
            if len(self._pages) > MAX_PAGES:
                self._pages.popitem(last=False)
        try:
            return await asyncio.shield(page.result)
        except Exception:
            if self._pages.get(key) is page:
                del self._pages[key]
            raise


def _retrieve_exception(page: "asyncio.Task[Encoded]") -> None:
    """Keep asyncio from logging an exception that no caller has waited for."""
    if not page.cancelled():
        page.exception()


def _version_for(principal: Principal) -> tuple[int, frozenset[str]]:
    # In this order, so that a page is at least as new as its version.
    version = tool_rows.version()
    return version, catalogue.names_granted(principal)


def encoded(
    cursor: str | None, principal: Principal, server_info: Mapping[str, Any], names: frozenset[str] | None = None
) -> Encoded:
    """Make a page, of the tools in `names` only if they are given.

    Raises `InvalidCursor`. Queries the database.
    """
    page = catalogue.page(cursor, principal, names)
    # Never `public`: caches would share the result among callers that may be offered different
    # tools.
    listed = results.list_page(
        "tools", page.items, next_cursor=page.next_cursor, ttl_ms=settings.LIST_TTL_MS, cache_scope="private"
    )
    return Encoded(results.complete(listed, server_info))
