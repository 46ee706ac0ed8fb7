"""The open requests of one connection.

They are served side by side. A client cancels one by a notification, and all of them by closing the
connection. An id may be used again only after its request has ended or was cancelled. Source:
2026-07-28 basic/transports/stdio "Cancellation", basic/patterns/cancellation; 2025-11-25
basic/utilities/cancellation.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from mcp_app.auth.principal import Principal
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, RequestId, refuse
from mcp_app.protocol.legacy.requests import Cancelled
from mcp_app.transport.methods import E, Handlers, dispatch
from mcp_app.transport.process.admission import too_many, unavailable
from mcp_app.transport.serving import failures
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.serving.responder import PeerGoneError
from mcp_app.transport.stdio.peer import StdioPeer
from mcp_app.transport.stdio.response import StdioResponse

logger = logging.getLogger(__name__)

MAX_OPEN_REQUESTS: Final = 1_000
"""Requests of all kinds, and other work for the connection. Calls, reads and subscriptions have
limits of their own (`admission`)."""
CANCEL_ALL_SECONDS: Final = 10.0
"""How long to wait, when a connection ends, for the cancellation of its requests to be stored."""
SERVED_BEFORE_READY: Final = frozenset({"server/discover", "initialize", "ping", "logging/setLevel"})
"""Methods served before the site is ready. A client that gets no response takes the server for a
legacy one, or for none.
"""


class NotReadyError(Exception):
    """The site cannot serve. Standard error has a message for its operator."""


class OpenRequests:
    """The open requests of one client.

    `caller` resolves to the client's principal once the site is ready, or raises `NotReadyError`.
    """

    def __init__(self, peer: StdioPeer, caller: "asyncio.Future[Principal]") -> None:
        self._peer = peer
        self._caller = caller
        self._open: dict[RequestId, tuple[Exchange, StdioResponse, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def refuse(self, request_id: RequestId) -> Rejection | None:
        """Return the rejection of a request that cannot begin now, or `None`."""
        if request_id in self._open:
            return refuse(
                INVALID_REQUEST, "A request with this id is still open; use a new id for each request.", request_id
            )
        if len(self._tasks) >= MAX_OPEN_REQUESTS:
            return too_many("Too many requests are open; wait for one to end.", request_id)
        return None

    def begin(self, exchange: E, response: StdioResponse, handlers: Handlers[E]) -> "asyncio.Task[None]":
        """Serve a request with its exchange's `response`.

        The returned task ends with it and never fails.
        """
        request_id = exchange.route.request_id
        task = self.start_task(self._serve(exchange, handlers), name="mcp-request")
        self._open[request_id] = exchange, response, task
        task.add_done_callback(lambda task: self._forget(request_id, task))
        return task

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Start other work for the connection. `cancel_all` does not cancel it but waits for it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self, cancelled: Cancelled) -> None:
        """Cancel a request. An unknown or finished one is ignored."""
        if cancelled.request_id not in self._open:
            return
        exchange, response, task = self._open.pop(cancelled.request_id)
        exchange.interruption.cancelled = True
        exchange.interruption.reason = cancelled.reason
        response.drop_later_messages()
        task.cancel()

    async def cancel_all(self) -> None:
        """Cancel all requests, because their client is gone."""
        for exchange, response, task in self._open.values():
            exchange.interruption.disconnected = True
            response.drop_later_messages()
            task.cancel()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=CANCEL_ALL_SECONDS)
            if unfinished:
                logger.warning(
                    "the cancellation of %d requests is not confirmed; supervision will handle them", len(unfinished)
                )

    def _forget(self, request_id: RequestId, task: "asyncio.Task[None]") -> None:
        if request_id in self._open and self._open[request_id][2] is task:
            del self._open[request_id]

    async def _serve(self, exchange: E, handlers: Handlers[E]) -> None:
        """Serve one request, and answer it unless it is cancelled. This is its task."""
        try:
            if exchange.route.method not in SERVED_BEFORE_READY:
                exchange.principal = await asyncio.shield(self._caller)
                await self._peer.listen(exchange.principal)
            await dispatch(exchange, handlers)
        except PeerGoneError as error:
            logger.info("a response was not delivered: %s", error)
        except NotReadyError as error:
            await self._reject(exchange, unavailable(str(error), exchange.route.request_id))
        except Exception as error:
            await self._reject(exchange, failures.explain(error, exchange.route.request_id))

    async def _reject(self, exchange: Exchange, rejection: Rejection) -> None:
        try:
            await exchange.response.reject(rejection)
        except PeerGoneError as error:
            logger.info("a failure was not delivered: %s", error)
