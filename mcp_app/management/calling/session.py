"""One run of `mcp call`: a server process with a single client.

The call's row names this process, so the work stops if the process is killed. The first Ctrl-C cancels the call and
waits until the work has really stopped; the second one leaves at once. No process of its own is left behind.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NoReturn
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.management.calling import ending, questions
from mcp_app.management.calling.display import Display
from mcp_app.management.calling.own_call import OwnCall
from mcp_app.management.calling.worker import CallWorker
from mcp_app.management.terminal import ERASE_LINE, is_live
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, Status
from mcp_app.transport import server as servers
from mcp_app.transport.process.heartbeats import LOGGER_NAME as HEARTBEAT

LOOK_SECONDS: Final = 0.2
_REASONS: Final = MappingProxyType({signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "hung up"})
_LOG_LEVELS: Final[Mapping[int, str | None]] = MappingProxyType({0: None, 1: "info"})
"""The level by verbosity. With a higher verbosity, all messages are received."""
_WHERE: Final = MappingProxyType({Status.QUEUED: "waiting for a worker", Status.RUNNING: "running"})
CANCELLING: Final = "Cancelling, and waiting until the work has stopped. Ctrl-C again leaves at once."
UNSTOPPABLE: Final = "The tool cannot be stopped in its worker, so it runs to its end. Ctrl-C stops waiting for it."

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How to make the call and show its result."""

    concurrency: int | None
    """The number of slots of a worker of its own, or `None` for no worker."""
    timeout: float | None
    """The time limit in seconds."""
    verbosity: int
    as_json: bool


class CallSession:
    """Runs one call, and is the listener of that call."""

    def __init__(
        self, tool: str, arguments: Mapping[str, Any], principal: Principal, session_options: SessionOptions
    ) -> None:
        self._params = {"name": tool, "arguments": arguments}
        self._principal = principal
        self._wishes = session_options
        self._request_id: UUID | None = None
        self._asking: asyncio.Task[dict[str, Any]] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._display = Display(sys.stderr, tool, silent=session_options.verbosity == 0)
        self._worker = CallWorker(session_options.concurrency, self._display, self._worker_failed)
        self._worker_has_failed = False

    async def run(self) -> int:
        """Make the call. Return the exit status when all parts of this process have ended."""
        self._loop = loop = asyncio.get_running_loop()
        self._server = servers.current()
        level = _LOG_LEVELS.get(self._wishes.verbosity, "debug")
        self._call = OwnCall(self._server, self._principal, self, log_level=level, timeout=self._wishes.timeout)
        self._serving = loop.create_task(self._serve(), name="mcp-call")
        for number in _REASONS:  # after `current`, whose own handlers would not cancel the call
            if signal.getsignal(number) != signal.SIG_IGN:  # ignored, for example under nohup
                loop.add_signal_handler(number, self._told_to_stop, number)
        try:
            with self._display.logging():
                return await self._conclude()
        finally:
            self._display.close()
            await self._server.stop()
            await asyncio.to_thread(self._worker.stop)

    def begun(self, request_id: UUID) -> None:
        self._request_id = request_id
        if self._stopping is None:
            self._display.where(_WHERE[Status.QUEUED])

    def moved(self, status: Status) -> None:
        if status in _WHERE:
            self._display.where(_WHERE[status])

    def notified(self, message: Message) -> None:
        params = message["params"]
        if message["method"] == "notifications/progress":
            self._display.progress(params["progress"], params.get("total"), params.get("message", ""))
        elif params.get("logger") != HEARTBEAT or self._wishes.verbosity > 2:
            self._display.line(ending.log_line(params))

    async def _serve(self) -> Message | None:
        """Return the final response, or `None` if the call was cancelled while it asked for input."""
        await self._server.rows.run(self._worker.start)
        params: dict[str, Any] = self._params
        while True:
            message = await self._call.ask(params)
            result = message.get("result", {})
            if result.get("resultType") != "input_required":
                return message
            if (answers := await self._answer(result.get("inputRequests", {}))) is None:
                return None
            params = {**self._params, "inputResponses": answers, "requestState": result["requestState"]}

    async def _answer(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answers, or `None` if the call was cancelled instead."""
        if not questions.is_anybody_there():
            for sentence in questions.refusals(asked):
                self._display.line(sentence)
            return questions.declined(asked)
        with self._display.held():
            self._asking = asyncio.get_running_loop().create_task(questions.answers(asked), name="mcp-asking")
            if self._stopping is not None:
                self._asking.cancel()
            await asyncio.wait([self._asking])
        return None if self._asking.cancelled() else self._asking.result()

    async def _conclude(self) -> int:
        """Print how the call ended and return the exit status."""
        await asyncio.wait([self._serving])
        message = None if self._serving.cancelled() else self._serving.result()
        if self._stopping is not None:
            await asyncio.wait([self._stopping])
        row = await self._ended_row()
        if row is not None:
            self._display.line(ending.summary(row))
        self._display.close()
        stopped = self._stopping is not None and not self._worker_has_failed
        status = ending.status(message, row, stopped=stopped)
        if message is not None and (status != ending.INTERRUPTED or self._wishes.as_json):
            ending.show(message, as_json=self._wishes.as_json)
        return status

    async def _ended_row(self) -> Request | None:
        """Return the call's row. If the call was cancelled from here, wait until its work has stopped."""
        if self._request_id is None:
            return None
        row = await self._server.rows.run(_read, self._request_id)
        if self._stopping is not None and row.status in OPEN:
            self._display.line(UNSTOPPABLE)
            while row.status in OPEN:
                await asyncio.sleep(LOOK_SECONDS)
                row = await self._server.rows.run(_read, self._request_id)
        return row

    def _told_to_stop(self, number: signal.Signals) -> None:
        if self._stopping is not None:
            self._leave()
        self._stopping = asyncio.get_running_loop().create_task(self._stop(_REASONS[number]), name="mcp-stop-call")

    def _worker_failed(self, reason: str) -> None:
        """Cancel the call, because no worker will run it. Called in the worker's thread."""
        self._worker_has_failed = True
        self._display.line(reason)
        self._loop.call_soon_threadsafe(self._give_up)

    def _give_up(self) -> None:
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop("the worker cannot be started"), name="mcp-stop-call")

    async def _stop(self, reason: str) -> None:
        """Cancel the call. The code that waits for it notices its end as usual."""
        if self._serving.done():
            return
        if self._asking is not None and not self._asking.done():
            self._display.line("")  # below the line that was being entered
        self._display.line(CANCELLING)
        if self._request_id is None:  # if it is being stored, the stream cancels it afterwards
            if (exchange := self._call.exchange) is not None:
                exchange.interruption.cancelled, exchange.interruption.reason = True, reason
            self._serving.cancel()
            return
        actor = Actor(self._principal.label)
        ask = CancellationRequest(self._request_id, Cause.CLIENT, actor, reason, self._principal)
        await self._server.cancellations.cancel(ask)
        if self._asking is not None:
            self._asking.cancel()

    def _leave(self) -> NoReturn:
        """Leave at once. The call has been cancelled, or will be because its server process is gone."""
        self._worker.kill()
        farewell = "Left."
        if self._request_id is not None:
            farewell += f" `python manage.py mcp requests {self._request_id}` shows how the call goes on."
        with suppress(OSError):
            os.write(sys.stderr.fileno(), f"{ERASE_LINE if is_live(sys.stderr) else ''}{farewell}\n".encode())
        os._exit(ending.INTERRUPTED)  # without waiting for threads, which may hang


def _read(request_id: UUID) -> Request:
    heavy = ("arguments", "result", "partial_result", "unredacted", "questions", "answers", "kept")
    return Request.objects.defer(*heavy).get(pk=request_id)
