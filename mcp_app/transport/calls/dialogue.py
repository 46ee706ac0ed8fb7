"""How a client and its call talk: what differs between the eras of MCP.

`calls.stream` does the rest.

Requests of the modern era stand for themselves: a call that asks for input ends its response, and a
client that leaves cancels its call. The sessions of the legacy era have a dialogue of their own
(`legacy.calls`).
Source: 2026-07-28 server/tools, basic/patterns/mrtr, streamable-http "Cancellation".
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from mcp_app.lifecycle.database.json_values import finite
from mcp_app.lifecycle.requests import observation
from mcp_app.lifecycle.requests.observation import Observed
from mcp_app.lifecycle.sessions import call_connections
from mcp_app.models import Request
from mcp_app.protocol import notifications, results
from mcp_app.protocol.errors import fail
from mcp_app.protocol.metadata import LOG_LEVELS
from mcp_app.protocol.requests import Route
from mcp_app.protocol.sse import EventId
from mcp_app.states import EventKind
from mcp_app.transport.calls import round_trips
from mcp_app.transport.calls.round_trips import Round
from mcp_app.transport.process import heartbeats
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.serving.responder import PeerGoneError


class CallNotifications:
    """The progress and log notifications that one call's client receives (basic/patterns/progress).

    A client receives only what it asked for. Progress that does not grow is left out.
    """

    def __init__(self, route: Route) -> None:
        metadata = route.metadata
        self._token = metadata.progress_token
        self._levels = frozenset(
            LOG_LEVELS[LOG_LEVELS.index(metadata.log_level) :] if metadata.log_level is not None else ()
        )
        self._sent: float | None = None
        self.wanted = route.accept.event_stream and (self._token is not None or bool(self._levels))
        self.wants_heartbeat = route.accept.event_stream and heartbeats.LEVEL in self._levels

    def messages(self, events: Iterable[tuple[EventKind, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
        """Yield the notifications to send for `events`, in order."""
        if not self.wanted:
            return
        for kind, data in events:
            if kind == EventKind.PROGRESS and (message := self._progress(data)) is not None:
                yield message
            if kind == EventKind.LOG and (message := self._log(data)) is not None:
                yield message

    def _progress(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        done = finite(data.get("progress"))
        if self._token is None or done is None or (self._sent is not None and done <= self._sent):
            return None
        self._sent = done
        return notifications.progress(
            self._token, _plain(done), _plain(finite(data.get("total"))), data.get("message") or None
        )

    def _log(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        if data.get("level") not in self._levels:
            return None
        return notifications.log_message(data["level"], data.get("data"), data.get("logger"))


def _plain(number: float | None) -> Any:
    """Return a whole number as an `int`, so that a client reads 3 and not 3.0."""
    return int(number) if number is not None and number.is_integer() else number


class CallDialogue(Protocol):
    """What a client receives about its call, and whether the call goes on if the client leaves."""

    notifications: CallNotifications
    cut_at: float
    """When the response must end even if the call has not ended (`time.monotonic`); infinite if
    never."""

    @property
    def is_resumable(self) -> bool:
        """Whether the client could resume the response if it were cut now."""

    def following(self, request: Request) -> AbstractContextManager[None]:
        """Return a context in which the client follows its stored call."""

    async def start_stream(self) -> None:
        """Make the response an event stream, unless it is one."""

    async def deliver(self, observed: Observed) -> bool:
        """Send an observation of the call. Return whether the response is over."""

    async def detach(self, request: Request, error: BaseException) -> bool:
        """Let the call go on without its response, which `error` has ended.

        Return `False` if it must be cancelled.
        """

    async def take_back(self, request: Request) -> None:
        """Withdraw the questions of a call that was cancelled when its response ended."""

    async def cut(self, request: Request) -> None:
        """End the response but not the call. The client can come back for the rest."""


class StatelessDialogue:
    """The dialogue of a modern request, which belongs to no session."""

    cut_at = math.inf
    is_resumable = False

    def __init__(self, exchange: Exchange, *, outlives_client: bool = False) -> None:
        """`outlives_client`: whether the call goes on when its client leaves."""
        self.notifications = CallNotifications(exchange.route)
        self._exchange = exchange
        self._outlives_client = outlives_client
        self._tool = ""

    def following(self, request: Request) -> AbstractContextManager[None]:
        self._tool = request.tool
        return nullcontext()

    async def start_stream(self) -> None:
        if not self._exchange.response.started:
            await self._exchange.response.start_events()

    async def deliver(self, observed: Observed) -> bool:
        for message in self.notifications.messages(observed.events):
            await self.start_stream()
            await self._exchange.response.event(message)
        if observed.questions is not None:
            # The row waits for the client to come back with answers.
            asked = Round(observed.request_id, observed.input_round)
            arguments = await self._exchange.server.rows.insist(observation.arguments, observed.request_id)
            await self._exchange.complete(
                round_trips.required(self._tool, arguments, self._exchange, asked, observed.questions)
            )
        elif observed.result is not None:
            await answer(self._exchange, observed)
        else:
            return False
        return True

    async def detach(self, request: Request, error: BaseException) -> bool:
        has_left = isinstance(error, PeerGoneError) or self._exchange.interruption.disconnected
        if not self._outlives_client or not has_left:
            return False
        await self._exchange.server.rows.run(call_connections.detach, request.pk)
        return True

    async def take_back(self, request: Request) -> None:
        """Do nothing, because questions end the response."""

    async def cut(self, request: Request) -> None:
        raise AssertionError("it cannot be resumed")


async def answer(exchange: Exchange, observed: Observed, event_id: EventId | None = None) -> None:
    """Send the response to a call that has ended, and mark its row as delivered."""
    assert observed.result is not None, "an ended request has a result"
    if observed.error is not None:
        await exchange.reject(fail(**observed.error, request_id=exchange.route.request_id), event_id)
    else:
        await exchange.complete(results.complete(observed.result, exchange.server_info()), event_id)
    exchange.server.row_watcher.delivered(observed.request_id)
