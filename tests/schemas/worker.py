"""The worker of these tests. It calls the tools' functions.

Only features of a worker's context are replaced: progress, questions, and waiting for a cancellation. The tool's name
selects them.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any, Final
from uuid import UUID

from celery import current_app
from django.db import connections

from mcp_app.catalogue import results
from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.errors import InvalidResult, ProtocolError
from mcp_app.catalogue.input.asking import Asking, InputRequired, Known
from mcp_app.catalogue.input.questions import Form, Question, Roots, Sampling
from mcp_app.catalogue.registry import registered_tools
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Request
from mcp_app.protocol.metadata import has_capabilities
from mcp_app.states import OPEN, EventKind, ProcessRole, Status
from tests.support.worker import NUMBER

PATIENCE: Final = 10.0


class AnyRun:
    """A run that may ask at any time."""

    def check_goes_on(self) -> None: ...

    def check_may_end(self) -> None: ...

    def check_has_client(self) -> None: ...

    def keep(self, key: str, value: Any) -> None: ...

    async def akeep(self, key: str, value: Any) -> None: ...


class Playing:
    """A worker in a thread."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._identity = Identity(ProcessRole.WORKER)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: BaseException | None = None

    @classmethod
    @contextmanager
    def at_work(cls) -> Iterator["Playing"]:
        with current_app.connection_for_read() as connection:
            queue = connection.SimpleQueue("mcp")
            queue.clear()
            worker = cls(queue)
            processes.beat(worker._identity)
            worker._thread.start()
            try:
                yield worker
            finally:
                worker._ending.set()
                worker._thread.join(PATIENCE)
                queue.close()

    def settle(self) -> None:
        """Wait until no call is open, except calls that wait for answers."""
        until = time.monotonic() + PATIENCE
        while rows := list(Request.objects.filter(status__in=OPEN - {Status.INPUT_REQUIRED})):
            assert self._failure is None, self._failure
            assert time.monotonic() < until, [(row.tool, row.status, row.cancel_cause, row.task_id) for row in rows]
            time.sleep(0.005)
        assert self._failure is None, self._failure

    def _work(self) -> None:
        held: list[UUID] = []
        try:
            while not self._ending.is_set():
                held = [request_id for request_id in held if not self._stop(request_id)]
                try:
                    message = self._queue.get(timeout=0.02)
                except Empty:
                    continue
                message.ack()
                request_id = UUID(message.payload[0][0])
                row = transitions.claim(request_id, worker=self._identity.boot_id, pid=1)
                if row is not None and not self._run(row):
                    held.append(request_id)
        except BaseException as error:
            self._failure = error
            raise
        finally:
            connections.close_all()

    def _stop(self, request_id: UUID) -> bool:
        """Return whether a call that waited for its cancellation has ended."""
        if not Request.objects.filter(pk=request_id, cancel_requested_at__isnull=False).exists():
            return False
        transitions.finish(request_id, Status.CANCELLED, worker=self._identity.boot_id)
        return True

    def _run(self, row: Request) -> bool:
        """Run a call, and return whether it has ended."""
        if row.tool == "held":
            return False
        if row.tool == "reporting":
            progress = [Event(EventKind.PROGRESS, {"progress": n, "total": 3, "message": "é"}) for n in (1, 2, 2.5)]
            lines = [
                Event(EventKind.LOG, {"level": level, "data": {"n": 1}, "logger": "t"}) for level in ("debug", "error")
            ]
            transitions.record(row.pk, [*progress, *lines])
        try:
            status, result, error = self._outcome(row)
        except InputRequired as asking:
            input_rounds.ask(row.pk, asking.args[0], worker=self._identity.boot_id)
            return True
        transitions.finish(row.pk, status, worker=self._identity.boot_id, result=result, error=error)
        return True

    def _outcome(self, row: Request) -> tuple[Status, dict[str, Any] | None, dict[str, Any] | None]:
        tool = registered_tools()[row.tool]
        try:
            if row.tool.startswith("asking"):
                _ask(row)
            result = results.to_result(tool, tool.function(**bind(tool, row.arguments)))
        except ProtocolError as failure:
            return Status.FAILED, None, {"cause": "protocol", "code": failure.code, "message": str(failure)}
        except InvalidResult as failure:
            return Status.FAILED, results.failure_result(failure), None
        except Exception as failure:
            return Status.FAILED, results.failure_result(failure), None
        return Status.FAILED if result.get("isError") else Status.COMPLETED, result, None


def _ask(row: Request) -> None:
    """Ask a client every question that it declares a capability for, or else for a number."""
    every: dict[str, Question[Any]] = {
        "n": Form("How many?", NUMBER),
        "model": Sampling("Capital?", max_tokens=9),
        "roots": Roots(),
    }
    able = {key: each for key, each in every.items() if has_capabilities(each.capability, row.client_capabilities)}
    asking = Asking(Known(row.protocol_version, row.client_capabilities, row.answers, row.kept), AnyRun())
    try:
        asking.ask(**(able or {"n": every["n"]}))
    except InputRequired as question:
        asked = asking.ended_by(question)
        assert asked is not None, "it asked"
        raise InputRequired(asked.questions) from None
