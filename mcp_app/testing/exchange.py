"""Answer a request without a server: run the transport's handlers in the calling thread.

The handlers never have to wait here, so that no event loop is needed and Django lets them read its rows. Requests
without an end (subscriptions and tasks) are not supported.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import observation
from mcp_app.lifecycle.requests.observation import WatchedRequest
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.protocol.requests import read_call_tool
from mcp_app.protocol.sse import EventId
from mcp_app.states import ProcessRole
from mcp_app.transport import methods
from mcp_app.transport.calls import checks
from mcp_app.transport.calls.dialogue import StatelessDialogue
from mcp_app.transport.methods import Handlers, dispatch
from mcp_app.transport.process import tool_lists
from mcp_app.transport.process.admission import Admission
from mcp_app.transport.server import Server
from mcp_app.transport.serving.exchange import Exchange

R = TypeVar("R")

Work = Callable[[UUID], None]
"""Runs a queued request to its end."""


class _Here:
    """Replaces a thread pool: runs functions in the calling thread."""

    async def run(self, function: Callable[..., R], *args: Any) -> R:
        return function(*args)

    insist = run


class _Delivered:
    """Replaces the row watcher."""

    def delivered(self, request_id: UUID) -> None:
        observation.mark_delivered([request_id])


class _Lists:
    """Replaces the cached lists."""

    async def page(self, cursor: str | None, principal: Principal, server_info: Mapping[str, Any]) -> Mapping[str, Any]:
        return tool_lists.encoded(cursor, principal, server_info)


class InProcessServer(Server):
    """The parts of a server process that a single request needs."""

    def __init__(self) -> None:
        here: Any = _Here()
        self.identity = Identity(ProcessRole.SERVER)
        self.admission = Admission()
        self.rows = self.authors = here
        self.row_watcher = cast("Any", _Delivered())
        self.tool_lists = cast("Any", _Lists())
        self.once = cast("Any", lambda function, *args: function(*args))


class Collected:
    """A `Responder` that collects the messages it is given."""

    shared = False
    silent_seconds = 0.0

    def __init__(self) -> None:
        self.started = False
        self.messages: list[Mapping[str, Any]] = []

    async def json(self, message: Mapping[str, Any]) -> None:
        self.messages.append(message)

    async def reject(self, rejection: Rejection) -> None:
        self.messages.append(error_response(rejection))

    async def start_events(self) -> None:
        self.started = True

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        self.messages.append(message)

    async def end(self) -> None:
        """Do nothing, because there is no connection to end."""

    async def keep_alive(self) -> None:
        """Do nothing, because no client is waiting."""


def serve(exchange: Exchange, work: Work) -> None:
    """Answer a request. The response is in the exchange."""
    handlers: Handlers[Exchange] = MappingProxyType({**_ANSWERED, "tools/call": partial(_call_tool, work=work)})
    _finish(dispatch(exchange, handlers))


async def _call_tool(exchange: Exchange, work: Work) -> None:
    """Serve a `tools/call` with the worker in this process. After its run, it has ended or has asked a question."""
    call = read_call_tool(exchange.route)
    admitted = call if isinstance(call, Rejection) else checks.admit(call, exchange)
    if isinstance(admitted, Rejection):
        await exchange.reject(admitted)
        return
    if isinstance(admitted, dict):
        await exchange.complete(admitted)
        return
    publishing.publish(admitted)
    work(admitted.pk)
    dialogue = StatelessDialogue(exchange)
    watch = WatchedRequest(admitted.event_seq, wants_events=dialogue.notifications.wanted)
    with dialogue.following(admitted):
        while seen := observation.observe({admitted.pk: watch}):
            if await dialogue.deliver(seen[0]):
                return
            watch = replace(watch, event_seq=seen[0].event_seq)
    raise AssertionError(f"request {admitted.pk} has not ended after its run")


_ENDLESS: Final = ("subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel")
_ANSWERED: Final = {name: handler for name, handler in methods.HANDLERS.items() if name not in _ENDLESS}


def _finish(handling: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never has to wait."""
    try:
        handling.send(None)
    except StopIteration:
        return
    handling.close()
    raise AssertionError("a handler waits for an event that cannot happen in this client")
