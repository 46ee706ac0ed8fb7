"""The methods that run authors' code in this process: resources, prompts, completion.

Each reads its params and hands over to the catalogue, in a thread; what a prompt or a resource asks its user first is
`read_rounds`'s to ask. Source: 2026-07-28 server/resources, server/prompts,
server/utilities/completion, pagination, caching.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import completing, reading
from mcp_app.catalogue.paging import Page
from mcp_app.conf import settings
from mcp_app.protocol import requests, results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.results import CacheScope
from mcp_app.transport import author_code, read_rounds
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.read_rounds import Read

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
    await _read(exchange, resource_read(exchange))


async def get_prompt(exchange: Exchange) -> None:
    """`prompts/get`."""
    await _read(exchange, prompt_read(exchange))


def resource_read(exchange: Exchange) -> Read | Rejection:
    """What `resources/read` asks for."""
    asked = requests.read_read_resource(exchange.route)
    if isinstance(asked, Rejection):
        return asked
    return Read(asked.uri, {}, partial(reading.read, asked.uri, exchange.principal))


def prompt_read(exchange: Exchange) -> Read | Rejection:
    """What `prompts/get` asks for."""
    asked = requests.read_get_prompt(exchange.route)
    if isinstance(asked, Rejection):
        return asked
    run = partial(reading.get_prompt, asked.name, asked.arguments, exchange.principal)
    return Read(asked.name, asked.arguments, run)


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
    scope_of: Callable[[str], CacheScope],
) -> None:
    def payload(asked: requests.ListPage) -> dict[str, Any]:
        page = page_of(asked.cursor, exchange.principal)
        return results.list_page(
            member,
            page.items,
            next_cursor=page.next_cursor,
            ttl_ms=settings.LIST_TTL_MS,
            cache_scope=scope_of(exchange.principal.endpoint),
        )

    await _answer(exchange, requests.read_list_page(exchange.route), payload)


async def _read(exchange: Exchange, read: Read | Rejection) -> None:
    """Answer with what is read, or with what is asked first."""
    brought = requests.read_answers(exchange.route)
    if isinstance(read, Rejection):
        await exchange.reject(read)
    elif isinstance(brought, Rejection):
        await exchange.reject(brought)
    else:
        await _respond(exchange, await author_code.run(exchange, partial(read_rounds.answer, read, brought, exchange)))


async def _answer(exchange: Exchange, asked: A | Rejection, payload: Callable[[A], dict[str, Any]]) -> None:
    """Answer with the result that `payload`, in a thread, makes of what was asked."""
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    await _respond(
        exchange, await author_code.run(exchange, lambda: results.complete(payload(asked), exchange.server_info()))
    )


async def _respond(exchange: Exchange, made: dict[str, Any] | Rejection) -> None:
    if isinstance(made, Rejection):
        await exchange.reject(made)
    else:
        await exchange.complete(made)
