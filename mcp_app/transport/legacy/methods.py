"""The methods that legacy clients have on every transport, and the handlers that only they need.

Methods of both eras use the modern handlers. Any other method is -32601 with status 200, because
404 would mean that the session has ended.

`resources/subscribe` and `resources/unsubscribe` are stored in the session, which sends the
notifications. A resource that the caller may not read is treated as if it did not exist.

Source: 2025-11-25 and earlier, basic/lifecycle, basic/utilities/ping, server/utilities/logging,
server/resources "Subscriptions".
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mcp_app.catalogue import reads as catalogue_reads
from mcp_app.conf import settings
from mcp_app.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, Rejection, fail, refuse
from mcp_app.protocol.legacy import results
from mcp_app.protocol.legacy.requests import read_initialize, read_set_level
from mcp_app.protocol.requests import read_read_resource
from mcp_app.protocol.revisions import negotiate_legacy
from mcp_app.transport import methods
from mcp_app.transport.legacy import asking_reads, calls
from mcp_app.transport.legacy.exchange import LegacyExchange, LegacySession
from mcp_app.transport.methods import Handlers
from mcp_app.transport.reads import author_code
from mcp_app.transport.reads import methods as reads
from mcp_app.transport.serving.capabilities import server_capabilities
from mcp_app.transport.serving.exchange import introduction

REPEATED = "This session is already initialized; to start another, send initialize without a session id."


@dataclass(frozen=True, slots=True)
class ResourceWatch:
    """A session and the resource to subscribe to or unsubscribe from."""

    session: LegacySession
    uri: str


async def initialize(exchange: LegacyExchange) -> None:
    """Negotiate the revision and begin a session."""
    asked = read_initialize(exchange.route)
    if exchange.peer.session is not None:
        asked = refuse(INVALID_REQUEST, REPEATED, exchange.request_id)
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    revision = negotiate_legacy(asked.version)
    if (refusal := await exchange.peer.begin_session(exchange.principal, asked.handshake, revision)) is not None:
        await exchange.reject(refusal)
        return
    await exchange.complete(
        results.initialize_result(
            revision,
            server_capabilities(exchange.principal.endpoint),
            introduction(exchange.principal.endpoint),
            exchange.endpoint.INSTRUCTIONS,
        )
    )


async def ping(exchange: LegacyExchange) -> None:
    await exchange.complete({})


async def set_level(exchange: LegacyExchange) -> None:
    """Serve `logging/setLevel`: set the log level of later calls in the session."""
    level = read_set_level(exchange.route)
    if isinstance(level, Rejection):
        await exchange.reject(level)
    elif exchange.peer.session is None:
        needs = "logging/setLevel needs a session; start one with initialize."
        await exchange.reject(refuse(INVALID_REQUEST, needs, exchange.request_id))
    else:
        await exchange.peer.session.set_log_level(level)
        await exchange.complete({})


async def subscribe(exchange: LegacyExchange) -> None:
    """Send notifications when one resource changes, from now on."""
    asked = await _find_readable(exchange)
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    if await asked.session.subscribe(asked.uri):
        await exchange.complete({})
    else:
        message = f"A session may watch at most {settings.MAX_RESOURCE_SUBSCRIPTIONS} resources; unsubscribe from one."
        await exchange.reject(fail(INVALID_PARAMS, message, exchange.route.request_id))


async def unsubscribe(exchange: LegacyExchange) -> None:
    """End a subscription to a resource. Does nothing if there is none."""
    asked = _read_watch(exchange)
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    await asked.session.unsubscribe(asked.uri)
    await exchange.complete({})


async def _find_readable(exchange: LegacyExchange) -> ResourceWatch | Rejection:
    asked = _read_watch(exchange)
    if isinstance(asked, Rejection):
        return asked

    def found() -> ResourceWatch:
        catalogue_reads.permitted(asked.uri, exchange.principal)
        return asked

    return await author_code.run(exchange, found)


def _read_watch(exchange: LegacyExchange) -> ResourceWatch | Rejection:
    if exchange.peer.session is None:
        needs = f"{exchange.route.method} needs a session; start one with initialize."
        return refuse(INVALID_REQUEST, needs, exchange.route.request_id)
    read = read_read_resource(exchange.route)
    return read if isinstance(read, Rejection) else ResourceWatch(exchange.peer.session, read.uri)


HANDLERS: Final[Handlers[LegacyExchange]] = MappingProxyType(
    {
        "initialize": initialize,
        "ping": ping,
        "logging/setLevel": set_level,
        "tools/list": methods.list_tools,
        "tools/call": calls.serve,
        "resources/list": reads.list_resources,
        "resources/templates/list": reads.list_templates,
        "resources/read": asking_reads.read_resource,
        "resources/subscribe": subscribe,
        "resources/unsubscribe": unsubscribe,
        "prompts/list": reads.list_prompts,
        "prompts/get": asking_reads.get_prompt,
        "completion/complete": reads.complete,
    }
)
