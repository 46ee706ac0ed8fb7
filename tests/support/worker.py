"""A test in the role of a Celery worker. It takes real messages from the broker and writes rows through `lifecycle`."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from celery import current_app
from django.db import connections

from mcp_app.catalogue.input.questions import Form
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Request
from mcp_app.states import EventKind, ProcessRole, Status

NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"]}
PATIENCE = 10.0
"""Seconds after which a test has failed."""


class Worker:
    def __init__(self, queue: Any) -> None:
        self.identity = Identity(ProcessRole.WORKER)
        self._queue = queue

    @classmethod
    @contextmanager
    def at_work(cls) -> Iterator["Worker"]:
        with current_app.connection_for_read() as connection:
            queue = connection.SimpleQueue("mcp")
            queue.clear()
            worker = cls(queue)
            processes.beat(worker.identity)
            yield worker
            queue.close()

    async def receive(self) -> UUID:
        """Wait for the next message, and return the id of its request."""
        message = await asyncio.to_thread(self._queue.get, timeout=PATIENCE)
        message.ack()
        [args, *_] = message.payload
        return UUID(args[0])

    def idle(self) -> bool:
        """Return whether the queue is empty."""
        return self._queue.qsize() == 0

    async def claim(self) -> UUID:
        request_id = await self.receive()
        claimed = await in_thread(transitions.claim, request_id, worker=self.identity.boot_id, pid=1)
        assert claimed is not None
        return request_id

    async def report(self, request_id: UUID, *steps: float, **details: Any) -> None:
        events = [Event(EventKind.PROGRESS, {"progress": step, **details}) for step in steps]
        assert await in_thread(transitions.record, request_id, events)

    async def log(self, request_id: UUID, *levels: str) -> None:
        """Record one line for each level in a single write. The text of a line is its level."""
        lines = [Event(EventKind.LOG, {"level": level, "data": level, "logger": "tool"}) for level in levels]
        assert await in_thread(transitions.record, request_id, lines)

    async def ask(self, request_id: UUID, **questions: Any) -> Status | None:
        """Ask the client's user to fill in one form for each question. A form has one field, a number from 1 to 9."""
        asked = {key: Form(message, NUMBER).request() for key, message in questions.items()}
        return await in_thread(input_rounds.ask, request_id, asked, worker=self.identity.boot_id)

    async def finish(self, request_id: UUID, status: Status = Status.COMPLETED, text: str = "done") -> Status | None:
        result = {"content": [{"type": "text", "text": text}]} if status == Status.COMPLETED else None
        return await in_thread(transitions.finish, request_id, status, worker=self.identity.boot_id, result=result)

    async def fail(self, request_id: UUID, error: dict[str, Any]) -> Status | None:
        return await in_thread(transitions.finish, request_id, Status.FAILED, worker=self.identity.boot_id, error=error)


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function in a thread, and then close the thread's database connections.

    psycopg warns about connections that are still open when they are garbage-collected.
    """

    def call() -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return await asyncio.to_thread(call)


async def row(request_id: UUID) -> Request:
    found: Request = await in_thread(Request.objects.get, pk=request_id)
    return found


async def eventually(condition: Callable[[], Any]) -> Any:
    """Poll `condition`, which reads the database, and return its first true value."""
    async with asyncio.timeout(PATIENCE):
        while not (value := await in_thread(condition)):  # noqa: ASYNC110 - a database sends no event
            await asyncio.sleep(0.01)
    return value
