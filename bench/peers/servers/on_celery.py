"""The upper limit for a server that runs a Celery task for each request.

It publishes an empty task, and waits until its result is stored. The request is neither checked nor stored.
"""

import asyncio
import os
import socket

import django

from bench.floor_app import app as celery
from bench.floor_worker import INBOX, QUEUE
from bench.peers.servers import floors

ID_BYTES = 64

django.setup()


class Results:
    """Waits for stored results, which the worker announces by datagrams."""

    def __init__(self) -> None:
        self._waited_for: dict[str, asyncio.Future[None]] = {}
        self._inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._inbox.setblocking(False)
        self._inbox.bind(os.environ[INBOX])
        asyncio.get_running_loop().add_reader(self._inbox, self._hear)

    async def of(self, task_id: str) -> None:
        """Wait until the result of a task is stored."""
        stored = self._waited_for[task_id] = asyncio.get_running_loop().create_future()
        await stored

    def _hear(self) -> None:
        try:
            while task_id := self._inbox.recv(ID_BYTES).decode():
                if (stored := self._waited_for.pop(task_id, None)) is not None:
                    stored.set_result(None)
        except BlockingIOError:
            pass


_results: list[Results] = []


async def app(scope, receive, send) -> None:
    """`bench.peers.servers.on_celery:app`: responds like `floors.bare`, after a task has run."""
    if scope["type"] != "http":
        return
    if not _results:
        _results.append(Results())
    # Published on the event loop itself, because a thread would cost more.
    await _results[0].of(celery.send_task("bench.empty", queue=QUEUE).id)
    await floors.bare(scope, receive, send)
