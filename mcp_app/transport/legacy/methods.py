"""Which methods legacy clients are served, and those that only they have.

Modern handlers serve what both eras have. Everything else is -32601, in the method: 404 would say that the session is
gone. Source: 2025-11-25 and earlier, basic/lifecycle, basic/utilities/ping, server/utilities/logging.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from mcp_app.conf import settings
from mcp_app.lifecycle import sessions
from mcp_app.models import Session
from mcp_app.protocol import legacy_results
from mcp_app.protocol.errors import INVALID_REQUEST, TOO_MANY_REQUESTS, Rejection, method_not_found, refuse
from mcp_app.protocol.legacy_inbound import SESSION
from mcp_app.protocol.legacy_requests import Initialize, read_initialize, read_set_level
from mcp_app.protocol.revisions import Revision, negotiate_legacy
from mcp_app.transport import methods, reads, spans
from mcp_app.transport.admission import RETRY_AFTER
from mcp_app.transport.capabilities import is_delivered, server_capabilities
from mcp_app.transport.exchange import server_info
from mcp_app.transport.legacy import calls, get_stream, subscriptions
from mcp_app.transport.legacy.exchange import LegacyExchange


async def initialize(exchange: LegacyExchange) -> None:
    """Negotiate the revision and begin a session, named in `Mcp-Session-Id`."""
    asked = read_initialize(exchange.route)
    if exchange.session is not None:
        asked = refuse(
            INVALID_REQUEST, "The session is initialized; begin another without its id.", exchange.request_id
        )
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    revision = negotiate_legacy(asked.version)
    try:
        session = await exchange.server.rows.run(partial(_begin, exchange, asked, revision))
    except sessions.TooManySessionsError:
        busy = "Too many sessions of yours are busy; end one."
        await exchange.reject(refuse(TOO_MANY_REQUESTS, busy, exchange.request_id, headers=RETRY_AFTER))
        return
    exchange.http.fields = ((SESSION.lower().encode(), session.pk.hex.encode()),)
    await exchange.complete(
        legacy_results.initialized(revision, server_capabilities(), server_info(), settings.INSTRUCTIONS)
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
        await exchange.server.rows.run(sessions.set_log_level, exchange.session.pk, level)
        await exchange.complete({})


def _begin(exchange: LegacyExchange, asked: Initialize, revision: Revision) -> Session:
    return sessions.begin(
        exchange.principal,
        protocol_version=revision.name,
        client_info=asked.handshake.client_info,
        client_capabilities=asked.handshake.client_capabilities,
        subjects=get_stream.lists(),
    )


HANDLERS: Final[Mapping[str, Callable[[LegacyExchange], Awaitable[None]]]] = MappingProxyType(
    {
        "initialize": initialize,
        "ping": ping,
        "logging/setLevel": set_level,
        "tools/list": methods.list_tools,
        "tools/call": calls.serve,
        "resources/list": reads.list_resources,
        "resources/templates/list": reads.list_templates,
        "resources/read": reads.read_resource,
        "resources/subscribe": subscriptions.subscribe,
        "resources/unsubscribe": subscriptions.unsubscribe,
        "prompts/list": reads.list_prompts,
        "prompts/get": reads.get_prompt,
        "completion/complete": reads.complete,
    }
)


async def dispatch(exchange: LegacyExchange) -> None:
    """Serve one request by its method."""
    handler = HANDLERS.get(exchange.route.method) if is_delivered(exchange.route.method) else None
    with spans.serving(exchange, known=handler is not None):
        if handler is None:
            await exchange.reject(method_not_found(exchange.route.method, exchange.route.request_id))
        else:
            await handler(exchange)
