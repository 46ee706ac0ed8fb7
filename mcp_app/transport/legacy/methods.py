"""Which methods legacy clients are served on every transport, and those that only they have.

Modern handlers serve what both eras have; each transport adds its `tools/call`. Everything else is -32601, in the
method: 404 would say that the session is gone. Source: 2025-11-25 and earlier, basic/lifecycle, basic/utilities/ping,
server/utilities/logging.
"""

from types import MappingProxyType
from typing import Final

from mcp_app.protocol import legacy_results
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, refuse
from mcp_app.protocol.legacy_requests import read_initialize, read_set_level
from mcp_app.protocol.revisions import negotiate_legacy
from mcp_app.transport import methods, reads
from mcp_app.transport.capabilities import server_capabilities
from mcp_app.transport.dispatch import Handlers
from mcp_app.transport.exchange import introduction
from mcp_app.transport.legacy import asking_reads, subscriptions
from mcp_app.transport.legacy.exchange import LegacyExchange

REPEATED = "This session is initialized already; begin another one outside it."


async def initialize(exchange: LegacyExchange) -> None:
    """Negotiate the revision and begin a session."""
    asked = read_initialize(exchange.route)
    if exchange.session is not None:
        asked = refuse(INVALID_REQUEST, REPEATED, exchange.request_id)
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    revision = negotiate_legacy(asked.version)
    if (refusal := await exchange.begin_session(asked.handshake, revision)) is not None:
        await exchange.reject(refusal)
        return
    await exchange.complete(
        legacy_results.initialized(
            revision,
            server_capabilities(exchange.principal.endpoint),
            introduction(exchange.principal.endpoint),
            exchange.endpoint.INSTRUCTIONS,
        )
    )


async def ping(exchange: LegacyExchange) -> None:
    await exchange.complete({})


async def set_level(exchange: LegacyExchange) -> None:
    """`logging/setLevel`: for the calls of the session that follow."""
    level = read_set_level(exchange.route)
    if isinstance(level, Rejection):
        await exchange.reject(level)
    elif exchange.session is None:
        needs = "logging/setLevel needs a session; begin one with initialize."
        await exchange.reject(refuse(INVALID_REQUEST, needs, exchange.request_id))
    else:
        await exchange.session.set_log_level(level)
        await exchange.complete({})


HANDLERS: Final[Handlers[LegacyExchange]] = MappingProxyType(
    {
        "initialize": initialize,
        "ping": ping,
        "logging/setLevel": set_level,
        "tools/list": methods.list_tools,
        "resources/list": reads.list_resources,
        "resources/templates/list": reads.list_templates,
        "resources/read": asking_reads.read_resource,
        "resources/subscribe": subscriptions.subscribe,
        "resources/unsubscribe": subscriptions.unsubscribe,
        "prompts/list": reads.list_prompts,
        "prompts/get": asking_reads.get_prompt,
        "completion/complete": reads.complete,
    }
)
