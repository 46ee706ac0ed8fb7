"""The methods that run authors' code in this process: resources, prompts, completion.

Each method reads its params and calls the catalogue in a thread. If a prompt or resource asks for
input first, `round_trips` asks the client. Source: 2026-07-28 server/resources, server/prompts,
server/utilities/completion, pagination, caching.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import completion, reads
from mcp_app.catalogue.paging import ListPage
from mcp_app.conf import settings
from mcp_app.protocol import requests, results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.results import CacheScope
from mcp_app.transport.reads import author_code, round_trips
from mcp_app.transport.reads.round_trips import Read
from mcp_app.transport.serving.exchange import Exchange

A = TypeVar("A")


async def list_resources(exchange: Exchange) -> None:
    """`resources/list`."""
    await _list(exchange, "resources", reads.resources_page, reads.resources_scope)


async def list_templates(exchange: Exchange) -> None:
    """`resources/templates/list`."""
    await _list(exchange, "resourceTemplates", reads.templates_page, reads.resources_scope)


async def list_prompts(exchange: Exchange) -> None:
    """`prompts/list`."""
    await _list(exchange, "prompts", reads.prompts_page, reads.prompts_scope)


async def read_resource(exchange: Exchange) -> None:
    """`resources/read`."""
    await _read(exchange, resource_read(exchange))


async def get_prompt(exchange: Exchange) -> None:
    """`prompts/get`."""
    await _read(exchange, prompt_read(exchange))


def resource_read(exchange: Exchange) -> Read | Rejection:
    """Return the resource that `resources/read` asks for."""
    params = requests.read_read_resource(exchange.route)
    if isinstance(params, Rejection):
        return params
    return Read(params.uri, {}, partial(reads.read, params.uri, exchange.principal))


def prompt_read(exchange: Exchange) -> Read | Rejection:
    """Return the prompt that `prompts/get` asks for."""
    params = requests.read_get_prompt(exchange.route)
    if isinstance(params, Rejection):
        return params
    run = partial(reads.get_prompt, params.name, params.arguments, exchange.principal)
    return Read(params.name, params.arguments, run)


async def complete(exchange: Exchange) -> None:
    """`completion/complete`."""

    def completed(params: requests.Complete) -> dict[str, Any]:
        of = completion.complete_prompt if params.of_prompt else completion.complete_template
        return of(params.ref, params.argument, params.value, params.context, exchange.principal)

    refusal = exchange.server.admission.refuse_completion(exchange.principal, exchange.route.request_id)
    await _answer(exchange, refusal or requests.read_complete(exchange.route), completed)


async def _list(
    exchange: Exchange,
    member: str,
    page_of: Callable[[str | None, Principal], ListPage],
    scope_of: Callable[[str], CacheScope],
) -> None:
    def payload(params: requests.ListRequest) -> dict[str, Any]:
        page = page_of(params.cursor, exchange.principal)
        return results.list_page(
            member,
            page.items,
            next_cursor=page.next_cursor,
            ttl_ms=settings.LIST_TTL_MS,
            cache_scope=scope_of(exchange.principal.endpoint),
        )

    await _answer(exchange, requests.read_list_page(exchange.route), payload)


async def _read(exchange: Exchange, read: Read | Rejection) -> None:
    """Respond with the resource or prompt, or with the questions that it asks first."""
    responses = requests.read_input_responses(exchange.route)
    if isinstance(read, Rejection):
        await exchange.reject(read)
    elif isinstance(responses, Rejection):
        await exchange.reject(responses)
    else:
        await _respond(
            exchange, await author_code.run(exchange, partial(round_trips.answer, read, responses, exchange))
        )


async def _answer(exchange: Exchange, params: A | Rejection, payload: Callable[[A], dict[str, Any]]) -> None:
    """Respond with the result that `payload` makes of the params, in a thread."""
    if isinstance(params, Rejection):
        await exchange.reject(params)
        return
    await _respond(
        exchange, await author_code.run(exchange, lambda: results.complete(payload(params), exchange.server_info()))
    )


async def _respond(exchange: Exchange, result: dict[str, Any] | Rejection) -> None:
    if isinstance(result, Rejection):
        await exchange.reject(result)
    else:
        await exchange.complete(result)
