"""One run of `mcp call`: a server process for one caller, whose row names it, so that its work stops if it is killed.

Told to stop, it has the call cancelled and waits until the work has really stopped; told again, it leaves. Refuses to
leave a process of its own behind.
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
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.management.calling import ending, questions
from mcp_app.management.calling.display import Display
from mcp_app.management.calling.own_call import OwnCall
from mcp_app.management.calling.worker import CallWorker
from mcp_app.management.terminal import ERASE_LINE, is_live
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, Status
from mcp_app.transport import server as servers
from mcp_app.transport.heartbeats import LOGGER_NAME as HEARTBEAT

LOOK_SECONDS: Final = 0.2
_REASONS: Final = MappingProxyType({signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "hung up"})
_LOG_LEVELS: Final[Mapping[int, str | None]] = MappingProxyType({0: None, 1: "info"})
"""By verbosity; above it everything is heard."""
_WHERE: Final = MappingProxyType({Status.QUEUED: "waiting for a worker", Status.RUNNING: "running"})
CANCELLING: Final = "Cancelling, and waiting until the work has stopped. Ctrl-C again leaves at once."
UNSTOPPABLE: Final = "It cannot be stopped where it runs, and goes on to its end. Ctrl-C leaves."

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """How the call is to be made and told."""

    concurrency: int | None
    """Of a worker of its own; None: it has none."""
    timeout: float | None
    """Seconds until it is to end."""
    verbosity: int
    as_json: bool


class Session:
    """`run` it once. The listener of its call."""

    def __init__(self, tool: str, arguments: Mapping[str, Any], principal: Principal, wishes: Wishes) -> None:
        self._params = {"name": tool, "arguments": arguments}
        self._principal = principal
        self._wishes = wishes
        self._request_id: UUID | None = None
        self._asking: asyncio.Task[dict[str, Any]] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._display = Display(sys.stderr, tool, silent=wishes.verbosity == 0)
        self._worker = CallWorker(wishes.concurrency, self._display)

    async def run(self) -> int:
        """The exit status, when everything of this process has ended."""
        loop = asyncio.get_running_loop()
        self._server = servers.current()
        level = _LOG_LEVELS.get(self._wishes.verbosity, "debug")
        self._call = OwnCall(self._server, self._principal, self, log_level=level, timeout=self._wishes.timeout)
        self._serving = loop.create_task(self._serve(), name="mcp-call")
        for number in _REASONS:  # after `current`, whose own handlers know of no call
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
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
        """The response, once nothing is asked any more; None where it was cancelled while it asked."""
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
        """What is answered; None where the call was cancelled instead."""
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
        """Tell how it ended; the exit status."""
        await asyncio.wait([self._serving])
        message = None if self._serving.cancelled() else self._serving.result()
        if self._stopping is not None:
            await asyncio.wait([self._stopping])
        row = await self._ended_row()
        if row is not None:
            self._display.line(ending.summary(row))
        self._display.close()
        stopped = self._stopping is not None
        status = ending.status(message, row, stopped=stopped)
        if message is not None and (status != ending.INTERRUPTED or self._wishes.as_json):
            ending.show(message, as_json=self._wishes.as_json)
        return status

    async def _ended_row(self) -> Request | None:
        """Its row. Whoever cancelled it here waits until the work has stopped, even where it cannot be made to."""
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

    async def _stop(self, reason: str) -> None:
        """Have the work stopped; what waits for it here hears of that as of any end."""
        if self._serving.done():
            return
        if self._asking is not None and not self._asking.done():
            self._display.line("")  # below what was being entered
        self._display.line(CANCELLING)
        if self._request_id is None:  # it may be about to be stored: then whoever stores it has it cancelled
            if (exchange := self._call.exchange) is not None:
                exchange.cancelled, exchange.reason = True, reason
            self._serving.cancel()
            return
        actor = Actor(self._principal.label)
        ask = Ask(self._request_id, Cause.CLIENT, actor, reason, self._principal)
        await self._server.cancellations.cancel(ask)
        if self._asking is not None:
            self._asking.cancel()

    def _leave(self) -> NoReturn:
        """At once, and without a process: the call is to stop already, or stops as one of a process that is gone."""
        self._worker.kill()
        told = "Left."
        if self._request_id is not None:
            told += f" `python manage.py mcp requests {self._request_id}` tells what becomes of the call."
        with suppress(OSError):
            os.write(sys.stderr.fileno(), f"{ERASE_LINE if is_live(sys.stderr) else ''}{told}\n".encode())
        os._exit(ending.INTERRUPTED)  # not waiting for threads, which may be what hangs


def _read(request_id: UUID) -> Request:
    heavy = ("arguments", "result", "partial_result", "originals", "questions", "answers", "kept")
    return Request.objects.defer(*heavy).get(pk=request_id)
