"""`resources/subscribe` and `resources/unsubscribe`: kept in the session, told where it listens.

A resource that the caller may not read is as unknown as one that is not there. Source: 2025-11-25 server/resources
"Subscriptions".
"""

from dataclasses import dataclass

from mcp_app.catalogue import reading
from mcp_app.conf import settings
from mcp_app.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, Rejection, fail, refuse
from mcp_app.protocol.requests import read_read_resource
from mcp_app.transport import author_code
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.legacy.session import LegacySession


async def subscribe(exchange: LegacyExchange) -> None:
    """Have changes of one resource told from now on."""
    asked = await _readable(exchange)
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    if await asked.session.subscribe(asked.uri):
        await exchange.complete({})
    else:
        message = f"A session may watch at most {settings.MAX_RESOURCE_SUBSCRIPTIONS} resources; give one up."
        await exchange.reject(fail(INVALID_PARAMS, message, exchange.route.request_id))


async def unsubscribe(exchange: LegacyExchange) -> None:
    """Have them told no more; nothing where they were not."""
    asked = _asked(exchange)
    if isinstance(asked, Rejection):
        await exchange.reject(asked)
        return
    await asked.session.unsubscribe(asked.uri)
    await exchange.complete({})


@dataclass(frozen=True, slots=True)
class Asked:
    """Which session is to watch what."""

    session: LegacySession
    uri: str


async def _readable(exchange: LegacyExchange) -> Asked | Rejection:
    asked = _asked(exchange)
    if isinstance(asked, Rejection):
        return asked

    def found() -> Asked:
        reading.permitted(asked.uri, exchange.principal)
        return asked

    return await author_code.run(exchange, found)


def _asked(exchange: LegacyExchange) -> Asked | Rejection:
    if exchange.session is None:
        needs = f"{exchange.route.method} needs a session; begin one with initialize."
        return refuse(INVALID_REQUEST, needs, exchange.route.request_id)
    read = read_read_resource(exchange.route)
    return read if isinstance(read, Rejection) else Asked(exchange.session, read.uri)
