"""The open requests of one connection: served at the same time, cancelled by word, and all of them at its end.

Refuses ids of requests that are still open, and more requests at once than it can keep.
Source: 2026-07-28 basic/transports/stdio "Cancellation", basic/patterns/cancellation; 2025-11-25
basic/utilities/cancellation.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from mcp_app.auth.principal import Principal
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, RequestId, refuse
from mcp_app.protocol.legacy_requests import Cancelled
from mcp_app.transport import failures
from mcp_app.transport.admission import too_many, unavailable
from mcp_app.transport.dispatch import E, Handlers, dispatch
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.stdio.exchange import Peer
from mcp_app.transport.stdio.response import Response

logger = logging.getLogger(__name__)

MAX_OPEN_REQUESTS: Final = 1_000
"""Of all kinds together; calls, reads and subscriptions have bounds of their own (`admission`)."""
LEAVING_SECONDS: Final = 10.0
"""What open requests are given to have their cancellation stored."""
AT_ONCE: Final = frozenset({"server/discover", "initialize", "ping", "logging/setLevel"})
"""Served before the site is ready: a client takes a server that is silent for a legacy one, or for none."""


class NotReadyError(Exception):
    """The site cannot serve; what its operator is to do has been said where they see it."""


class OpenRequests:
    """`caller` is whose they are, once the site is ready; or raises NotReadyError."""

    def __init__(self, peer: Peer, caller: "asyncio.Future[Principal]") -> None:
        self._peer = peer
        self._caller = caller
        self._open: dict[RequestId, tuple[Exchange, Response, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def refuse(self, request_id: RequestId) -> Rejection | None:
        """Why a request with this id cannot begin."""
        if request_id in self._open:
            return refuse(INVALID_REQUEST, "A request with this id is still open; give each its own.", request_id)
        if len(self._tasks) >= MAX_OPEN_REQUESTS:
            return too_many("Too many requests are open; wait for one to end.", request_id)
        return None

    def begin(self, exchange: E, response: Response, handlers: Handlers[E]) -> "asyncio.Task[None]":
        """Serve a request; what is returned ends with it, and never fails. `response` is the exchange's."""
        request_id = exchange.route.request_id
        task = self.keep(self._serve(exchange, handlers), name="mcp-request")
        self._open[request_id] = exchange, response, task
        task.add_done_callback(lambda task: self._end(request_id, task))
        return task

    def keep(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Do what belongs to the requests; it is waited for at the end."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self, cancelled: Cancelled) -> None:
        """What is unknown or finished is ignored, without a word."""
        if cancelled.request_id not in self._open:
            return
        exchange, response, task = self._open.pop(cancelled.request_id)
        exchange.cancelled = True
        exchange.reason = cancelled.reason
        response.silence()
        task.cancel()

    async def leave(self) -> None:
        """Cancel all, as those of a client that is gone."""
        for exchange, response, task in self._open.values():
            exchange.disconnected = True
            response.silence()
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LEAVING_SECONDS)
            if late:
                logger.warning("%d requests are not known to be cancelled; supervision will see to them", len(late))

    def _end(self, request_id: RequestId, task: "asyncio.Task[None]") -> None:
        if request_id in self._open and self._open[request_id][2] is task:
            del self._open[request_id]

    async def _serve(self, exchange: E, handlers: Handlers[E]) -> None:
        """The task: answer, whatever happens."""
        try:
            if exchange.route.method not in AT_ONCE:
                exchange.principal = await asyncio.shield(self._caller)
                await self._peer.listen(exchange.principal)
            await dispatch(exchange, handlers)
        except PeerGoneError as error:
            logger.info("a response was not delivered: %s", error)
        except NotReadyError as error:
            await self._fail(exchange, unavailable(str(error), exchange.route.request_id))
        except Exception as error:
            await self._fail(exchange, failures.explain(error, exchange.route.request_id))

    async def _fail(self, exchange: Exchange, rejection: Rejection) -> None:
        try:
            await exchange.response.reject(rejection)
        except PeerGoneError as error:
            logger.info("a failure was not delivered: %s", error)
