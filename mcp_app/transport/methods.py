"""Dispatches a request to the handler of its method, and lists the methods of the modern era.

The handlers of `server/discover`, `tools/list` and `tools/call` are here, too.
Source: 2026-07-28 basic/index "Capability Negotiation".
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from mcp_app.auth import authentication
from mcp_app.catalogue.errors import InvalidCursor
from mcp_app.conf import settings
from mcp_app.protocol import results
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, fail, method_not_found
from mcp_app.protocol.jsonrpc import Encoded
from mcp_app.protocol.requests import read_list_page
from mcp_app.transport.calls import stream, task_methods
from mcp_app.transport.calls.dialogue import StatelessDialogue
from mcp_app.transport.reads import methods
from mcp_app.transport.serving.capabilities import server_capabilities
from mcp_app.transport.serving.exchange import Exchange, introduction, request_span
from mcp_app.transport.subscriptions import stream as listen_stream

E = TypeVar("E", bound=Exchange)

Handlers = Mapping[str, Callable[[E], Awaitable[None]]]
"""The handler of each method. Each era has its own table; both transports use the same ones."""


async def dispatch(exchange: E, handlers: Handlers[E]) -> None:
    """Serve one request.

    Answers -32601 if its method has no handler, or its capability is not advertised.
    """
    method = exchange.route.method
    handler = handlers.get(method)
    capability = _CAPABILITIES.get(method)
    if capability is not None and capability not in server_capabilities(exchange.principal.endpoint):
        handler = None
    with request_span(exchange, known=handler is not None):
        if handler is None:
            await exchange.reject(method_not_found(method, exchange.route.request_id))
        else:
            await handler(exchange)


async def discover(exchange: Exchange) -> None:
    """`server/discover`. Its result does not depend on the caller."""
    await exchange.complete(exchange.server.once(discovered, exchange.principal.endpoint))


def discovered(endpoint: str) -> Encoded:
    """Return the result for an endpoint.

    It depends on settings and declarations only, so it never changes.
    """
    is_public = authentication.is_public(endpoint)
    return Encoded(
        results.discover(
            capabilities=server_capabilities(endpoint),
            instructions=settings.at(endpoint).INSTRUCTIONS,
            server_info=introduction(endpoint),
            ttl_ms=settings.LIST_TTL_MS,
            cache_scope="public" if is_public else "private",
        )
    )


async def list_tools(exchange: Exchange) -> None:
    """`tools/list`."""
    asked = read_list_page(exchange.route)
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    try:
        listed = await exchange.server.tool_lists.page(asked.cursor, exchange.principal, exchange.server_info())
    except InvalidCursor as error:
        await exchange.reject(fail(INVALID_PARAMS, str(error), exchange.route.request_id))
        return
    await exchange.complete(listed)


async def call_tool(exchange: Exchange) -> None:
    """`tools/call`."""
    await stream.serve(exchange, StatelessDialogue(exchange))


HANDLERS: Final[Handlers[Exchange]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": list_tools,
        "tools/call": call_tool,
        "resources/list": methods.list_resources,
        "resources/templates/list": methods.list_templates,
        "resources/read": methods.read_resource,
        "prompts/list": methods.list_prompts,
        "prompts/get": methods.get_prompt,
        "completion/complete": methods.complete,
        "subscriptions/listen": listen_stream.serve,
        "tasks/get": task_methods.get,
        "tasks/update": task_methods.update,
        "tasks/cancel": task_methods.cancel,
    }
)

_CAPABILITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "resources/list": "resources",
        "resources/templates/list": "resources",
        "resources/read": "resources",
        "resources/subscribe": "resources",
        "resources/unsubscribe": "resources",
        "prompts/list": "prompts",
        "prompts/get": "prompts",
        "completion/complete": "completions",
    }
)
"""The capability that a method of either era needs. The other methods need none."""

AT_ONCE: Final = frozenset({"server/discover", "tools/list"})
"""Methods that are quick and have no side effects. Over HTTP they are served without watching for a
disconnect."""
