"""A request and its response without a server: the handlers of the transport, in the thread that asks.

They wait for nothing here, so no event loop runs them, and Django lets them read its rows. Refuses what has no end:
subscriptions, and tasks.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar, cast
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import observation, publishing
from mcp_app.lifecycle.moved import Watch
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Request
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.protocol.requests import CallTool
from mcp_app.states import ProcessRole
from mcp_app.transport import call_admission, call_stream, methods, tool_lists
from mcp_app.transport.admission import Admission
from mcp_app.transport.call_notifications import CallNotifications
from mcp_app.transport.call_stream import CallStream
from mcp_app.transport.dispatch import Handlers, dispatch
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.server import Server

R = TypeVar("R")

Work = Callable[[UUID], None]
"""Runs a queued request to its end."""


class _Here:
    """Stands where a pool of threads is expected."""

    async def run(self, function: Callable[..., R], *args: Any) -> R:
        return function(*args)

    insist = run


class _Delivered:
    """Stands where the tail is expected."""

    def delivered(self, request_id: UUID) -> None:
        observation.mark_delivered([request_id])


class _Lists:
    """Stands where kept lists are expected."""

    async def page(self, cursor: str | None, principal: Principal, server_info: Mapping[str, Any]) -> Mapping[str, Any]:
        return tool_lists.encoded(cursor, principal, server_info)


class InProcessServer(Server):
    """The parts of a server process that one request at a time needs."""

    def __init__(self) -> None:
        here: Any = _Here()
        self.identity = Identity(ProcessRole.SERVER)
        self.admission = Admission()
        self.rows = self.authors = here
        self.tail = cast("Any", _Delivered())
        self.tool_lists = cast("Any", _Lists())
        self.once = cast("Any", lambda function, *args: function(*args))


class Collected:
    """A `Responder` that keeps what it is given."""

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

    async def event(self, message: Mapping[str, Any], *, last: bool = False) -> None:
        self.messages.append(message)

    async def keep_alive(self) -> None:
        """Nobody waits."""


class InProcessExchange(Exchange):
    """A request of a modern client that knows no tasks: a call that would become one is waited for."""

    mirrors_params: ClassVar[bool] = False
    makes_tasks: ClassVar[bool] = False


class InProcessCall(CallStream):
    """A call whose worker is here: once it is published and worked on, it has ended or asks."""

    def __init__(self, exchange: Exchange, work: Work) -> None:
        super().__init__(exchange)
        self._work = work

    async def run(self, call: CallTool) -> None:
        self._call = call
        admitted = call_admission.admit(call, self._exchange)
        if isinstance(admitted, Rejection):
            await self._exchange.reject(admitted)
        elif isinstance(admitted, dict):
            await self._exchange.complete(admitted)
        else:
            await self._wait_for(admitted)

    async def _wait_for(self, request: Request) -> None:
        told = CallNotifications(self._exchange.route)
        publishing.publish(request)
        self._work(request.pk)
        watch = Watch(request.event_seq, wants_events=told.wanted)
        while seen := observation.observe({request.pk: watch}):
            if await self._tell(seen[0], told):
                return
            watch = replace(watch, event_seq=seen[0].event_seq)
        raise AssertionError(f"request {request.pk} has not ended after its run")


def serve(exchange: Exchange, work: Work) -> None:
    """Answer a request; its response is where the exchange says."""
    calls = partial(call_stream.serve, stream_of=partial(InProcessCall, work=work))
    handlers: Handlers[Exchange] = MappingProxyType({**_ANSWERED, "tools/call": calls})
    _finish(dispatch(exchange, handlers))


_ENDLESS: Final = ("subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel")
_ANSWERED: Final = {name: handler for name, handler in methods.HANDLERS.items() if name not in _ENDLESS}


def _finish(handling: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        handling.send(None)
    except StopIteration:
        return
    handling.close()
    raise AssertionError("a handler waits, and nothing here would wake it")
