"""The span of one request in the server process, named and attributed by OpenTelemetry's conventions for MCP.

Refuses names of a client's choosing: a method or tool that is not there would make a name of its own for every typo.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Final

from mcp_app import tracing
from mcp_app.catalogue.registry import registered_tools
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.responder import PeerGoneError

UNKNOWN: Final = "_OTHER"
HTTP: Final = MappingProxyType({"network.transport": "tcp", "network.protocol.name": "http"})
PIPE: Final = MappingProxyType({"network.transport": "pipe"})
TARGETS: Final = MappingProxyType(
    {
        "tools/call": ("gen_ai.tool.name", "name"),
        "prompts/get": ("gen_ai.prompt.name", "name"),
        "resources/read": ("mcp.resource.uri", "uri"),
    }
)
"""By method: the attribute for what it is about, and the member of its params that says it."""


def serving(exchange: Exchange, *, known: bool) -> AbstractContextManager[None]:
    """Trace the handling of a request, whose method is served if it is `known`."""
    is_told = tracing.is_told(exchange.route.metadata.trace_context)
    return _traced(exchange, known=known) if is_told else _UNTRACED


_UNTRACED: Final = nullcontext()


@contextmanager
def _traced(exchange: Exchange, *, known: bool) -> Iterator[None]:
    method = exchange.route.method if known else UNKNOWN
    attributes = _attributes(exchange, method)
    tool = attributes.get("gen_ai.tool.name")
    name = f"{method} {tool}" if tool in registered_tools() else method
    with tracing.span(name, attributes, exchange.route.metadata.trace_context, of_peer=True) as exchange.span:
        try:
            yield
        except PeerGoneError as error:
            exchange.span.fail(tracing.CANCELLED, str(error))
            raise
        except asyncio.CancelledError:
            cause, _ = exchange.interruption()
            exchange.span.fail(tracing.CANCELLED, cause.value)
            raise


def _attributes(exchange: Exchange, method: str) -> dict[str, str]:
    route = exchange.route
    attributes = {
        "mcp.method.name": method,
        "mcp.protocol.version": route.metadata.protocol_version,
        "jsonrpc.request.id": str(route.request_id),
        **(PIPE if exchange.response.shared else HTTP),
    }
    if exchange.remote_address:
        attributes["client.address"] = exchange.remote_address
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    if method in TARGETS:
        attribute, member = TARGETS[method]
        attributes[attribute] = str(route.params.get(member, ""))
    return attributes
