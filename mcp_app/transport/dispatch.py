"""From a request to the handler of its method, by the table that its era and transport have.

Refuses to know any method. Source: 2026-07-28 basic/index "Capability Negotiation".
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from mcp_app.protocol.errors import method_not_found
from mcp_app.transport import spans
from mcp_app.transport.capabilities import is_delivered
from mcp_app.transport.exchange import Exchange

E = TypeVar("E", bound=Exchange)

Handlers = Mapping[str, Callable[[E], Awaitable[None]]]
"""What serves each method."""


async def dispatch(exchange: E, handlers: Handlers[E]) -> None:
    """Serve one request by its method: -32601 for one without a handler, or behind a capability not advertised."""
    method = exchange.route.method
    handler = handlers.get(method) if is_delivered(method, exchange.principal.endpoint) else None
    with spans.serving(exchange, known=handler is not None):
        if handler is None:
            await exchange.reject(method_not_found(method, exchange.route.request_id))
        else:
            await handler(exchange)
