"""Which MCP methods are served in the modern era, and those that answer at once: `server/discover` and `tools/list`."""

from types import MappingProxyType
from typing import Final

from mcp_app.auth import anonymous
from mcp_app.catalogue.errors import InvalidCursor
from mcp_app.conf import settings
from mcp_app.protocol import results
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, fail
from mcp_app.protocol.jsonrpc import Encoded
from mcp_app.protocol.requests import read_list_page
from mcp_app.transport import call_stream, listen_stream, reads, task_methods
from mcp_app.transport.capabilities import server_capabilities
from mcp_app.transport.dispatch import Handlers
from mcp_app.transport.exchange import Exchange, introduction


async def discover(exchange: Exchange) -> None:
    """`server/discover`. Nothing in it depends on the caller, so that it may be shared where anybody may ask."""
    await exchange.complete(exchange.server.once(discovered, exchange.principal.endpoint))


def discovered(endpoint: str) -> Encoded:
    """What an endpoint can do: as its settings say, and its resources and prompts, which are declared before it
    serves."""
    is_public = anonymous.is_for_everybody(endpoint)
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


HANDLERS: Final[Handlers[Exchange]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": list_tools,
        "tools/call": call_stream.serve,
        "resources/list": reads.list_resources,
        "resources/templates/list": reads.list_templates,
        "resources/read": reads.read_resource,
        "prompts/list": reads.list_prompts,
        "prompts/get": reads.get_prompt,
        "completion/complete": reads.complete,
        "subscriptions/listen": listen_stream.serve,
        "tasks/get": task_methods.get,
        "tasks/update": task_methods.update,
        "tasks/cancel": task_methods.cancel,
    }
)

AT_ONCE: Final = frozenset({"server/discover", "tools/list"})
"""What takes no time to speak of and leaves nothing behind: whether its client stays is not watched."""
