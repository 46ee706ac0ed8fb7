"""The methods that run authors' code in this process: resources, prompts, completion.

Each reads its params and hands over to the catalogue, in a thread. Source: 2026-07-28 server/resources, server/prompts,
server/utilities/completion, pagination, caching.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import completing, reading
from mcp_app.catalogue.paging import Page
from mcp_app.conf import settings
from mcp_app.protocol import requests, results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.results import CacheScope
from mcp_app.transport import author_code
from mcp_app.transport.exchange import Exchange, server_info

A = TypeVar("A")


async def list_resources(exchange: Exchange) -> None:
    """`resources/list`."""
    await _list(exchange, "resources", reading.resources_page, reading.resources_scope)


async def list_templates(exchange: Exchange) -> None:
    """`resources/templates/list`."""
    await _list(exchange, "resourceTemplates", reading.templates_page, reading.resources_scope)


async def list_prompts(exchange: Exchange) -> None:
    """`prompts/list`."""
    await _list(exchange, "prompts", reading.prompts_page, reading.prompts_scope)


async def read_resource(exchange: Exchange) -> None:
    """`resources/read`."""
    await _answer(
        exchange,
        requests.read_read_resource(exchange.route),
        lambda asked: reading.read(asked.uri, exchange.principal),
    )


async def get_prompt(exchange: Exchange) -> None:
    """`prompts/get`."""
    await _answer(
        exchange,
        requests.read_get_prompt(exchange.route),
        lambda asked: reading.get_prompt(asked.name, asked.arguments, exchange.principal),
    )


async def complete(exchange: Exchange) -> None:
    """`completion/complete`."""

    def completed(asked: requests.Complete) -> dict[str, Any]:
        of = completing.complete_prompt if asked.of_prompt else completing.complete_template
        return of(asked.ref, asked.argument, asked.value, asked.context, exchange.principal)

    refusal = exchange.server.admission.refuse_completion(
        exchange.principal, exchange.remote_address, exchange.route.request_id
    )
    await _answer(exchange, refusal or requests.read_complete(exchange.route), completed)


async def _list(
    exchange: Exchange,
    member: str,
    page_of: Callable[[str | None, Principal], Page],
    scope_of: Callable[[], CacheScope],
) -> None:
    def payload(asked: requests.ListPage) -> dict[str, Any]:
        page = page_of(asked.cursor, exchange.principal)
        return results.list_page(
            member,
            page.items,
            next_cursor=page.next_cursor,
            ttl_ms=settings.LIST_TTL_MS,
            cache_scope=scope_of(),
        )

    await _answer(exchange, requests.read_list_page(exchange.route), payload)


async def _answer(exchange: Exchange, asked: A | Rejection, payload: Callable[[A], dict[str, Any]]) -> None:
    """Answer with the result that `payload`, in a thread, makes of what was asked."""
    made = asked if isinstance(asked, Rejection) else await author_code.run(exchange, lambda: payload(asked))
    if isinstance(made, Rejection):
        await exchange.reject(made)
    else:
        await exchange.complete(results.complete(made, server_info()))
