"""A worker in a thread of the test's process. It takes messages from the real broker and runs them as Celery does."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

import pytest
from celery import current_app
from celery.app.trace import build_tracer
from django.db import connections

from mcp_app.celery_adapter.broker import RUN_TASK
from mcp_app.execution.process import child
from mcp_app.execution.process.child import Child, worker_identity
from mcp_app.execution.process.slots import ThreadSlot
from mcp_app.execution.process.watcher import Watcher
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping.termination import WorkerTermination
from mcp_app.execution.stopping.thread_interrupt import ThreadInterrupter
from mcp_app.execution.worker import run_tool
from mcp_app.lifecycle.liveness import processes

PATIENCE = 10.0


class ThreadWorker:
    """Runs published tasks. `messages` holds the received messages as text."""

    def __init__(self, queue: Any) -> None:
        self.messages: list[str] = []
        self._queue = queue
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    @classmethod
    @contextmanager
    def at_work(cls, monkeypatch: pytest.MonkeyPatch) -> Iterator["ThreadWorker"]:
        recorder, termination = Recorder(), WorkerTermination()
        watcher = Watcher(worker_identity(), os.getpid(), recorder, termination)
        here = Child(os.getpid(), recorder, watcher, termination, lambda: ThreadSlot(ThreadInterrupter()))
        monkeypatch.setitem(child._thread_pool_children, os.getpid(), here)
        recorder.start()
        with current_app.connection_for_read() as connection:
            queue = connection.SimpleQueue("mcp")
            queue.clear()
            processes.beat(worker_identity())
            worker = cls(queue)
            worker._thread.start()
            try:
                yield worker
            finally:
                worker._ending.set()
                worker._thread.join(PATIENCE)
                recorder.call(connections.close_all)
                watcher._socket.close()
                queue.close()
        assert not worker._thread.is_alive()

    def _work(self) -> None:
        app = current_app._get_current_object()
        trace = build_tracer(RUN_TASK, run_tool, app=app)
        try:
            while not self._ending.is_set():
                try:
                    message = self._queue.get(timeout=0.02)
                except Empty:
                    continue
                self.messages.append(repr((message.payload, message.headers, message.properties)))
                message.ack()
                args, kwargs, _ = message.payload
                trace(message.headers["id"], args, kwargs, {**message.headers, "delivery_info": message.delivery_info})
        finally:
            connections.close_all()
