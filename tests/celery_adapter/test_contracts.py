"""Behaviour of Celery, kombu and Python that is not documented and that `mcp_app` relies on.

`docs/project/upstream.md` lists these names.
"""

import os
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.concurrency import get_implementation
from celery.concurrency.base import apply_target
from celery.concurrency.prefork import TaskPool as PreforkTaskPool
from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadTaskPool
from celery.exceptions import WorkerShutdown, WorkerTerminate
from celery.worker import WorkController, state
from kombu import Connection
from kombu.asynchronous import Hub
from kombu.pidbox import Mailbox
from kombu.serialization import registry

from mcp_app.celery_adapter import consumer, pools, thread_pool
from mcp_app.celery_adapter.broker import content_type
from mcp_app.celery_adapter.consumer import SteadyConsumer
from mcp_app.celery_adapter.request_class import ToolRequest
from mcp_app.execution.pools import async_pool

OVERRIDDEN = [
    (SteadyConsumer, ["connection_for_read", "create_task_handler", "on_connection_error_after_connected"]),
    (SteadyConsumer, ["on_decode_error", "on_invalid_task", "register_with_event_loop"]),
    (ToolRequest, ["cancel", "send_event", "store_errors"]),
    (thread_pool.DaemonThreadTaskPool, ["apply_async", "info", "on_terminate"]),
    (thread_pool.JobPool, ["on_apply"]),
    (async_pool.AsyncTaskPool, ["on_start", "on_stop", "on_terminate"]),
]


@pytest.mark.parametrize(("kind", "names"), OVERRIDDEN)
def test_what_is_overridden_is_a_method_of_celerys_own(kind: type, names: list[str]) -> None:
    """If Celery renames a method, nothing calls its override any more."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("celery.")]
    assert not [name for name in names if name not in vars(kind) or not any(name in vars(base) for base in bases)]


def test_a_pool_is_found_by_its_names() -> None:
    """`get_implementation` takes aliases, paths and classes. Only the aliases of prefork return its TaskPool."""
    assert get_implementation("prefork") is get_implementation("processes") is PreforkTaskPool
    assert get_implementation(PreforkTaskPool) is PreforkTaskPool
    assert get_implementation("threads") is ThreadTaskPool
    assert get_implementation(thread_pool.NAME) is thread_pool.DaemonThreadTaskPool
    assert not pools.is_prefork("threads")
    assert not pools.can_run_tools("solo")
    assert pools.can_run_tools(async_pool.NAME)


def test_a_thread_pool_takes_another_executor() -> None:
    """`celery.concurrency.thread.TaskPool` uses only the `Executor` interface, except in its `info`."""
    assert isinstance(ThreadTaskPool(1).executor, ThreadPoolExecutor)
    pool = thread_pool.DaemonThreadTaskPool(1)
    ran, ended = threading.Event(), threading.Event()
    accepted: list[int] = []
    options = {"accept_callback": lambda pid, started: accepted.append(pid), "callback": lambda result: ended.set()}
    result = pool.apply_async(lambda: ran.set() or threading.current_thread().daemon, **options)
    result.wait(10)
    assert ran.is_set()
    assert ended.is_set()
    assert accepted == [os.getpid()]
    assert pool.info["threads"] == 1
    assert pool.info.keys() >= ThreadTaskPool(1).info.keys()
    pool.on_stop()


def test_a_task_of_a_thread_pool_is_waited_for_by_its_future() -> None:
    """An `ApplyResult` is made of a future and uses its `wait` and `get`."""
    future: Future[int] = Future()
    result = ApplyResult(future)
    result.wait(0.01)
    future.set_result(7)
    assert result.get() == 7


def test_a_task_is_run_by_apply_target() -> None:
    """`apply_target` calls the target and passes the result to the callback."""
    said: list[Any] = []
    apply_target(lambda *args, **kwargs: (args, kwargs), (1,), {"a": 2}, said.append)
    assert said == [((1,), {"a": 2})]
    args = ("mcp_app.run", "an id", {"retries": 0})
    job = thread_pool.Job(lambda name, task_id, request: request, args, {}, said.append, None)
    job.accept()
    job.run({"rest": 1})
    assert (said[-1], job.task_id) == ({"retries": 0, "rest": 1}, "an id")


def test_a_worker_that_is_told_to_stop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery's signal handlers set `state.should_stop` and `state.should_terminate`. Its event loop checks both."""
    monkeypatch.setattr(state, "should_stop", None)
    monkeypatch.setattr(state, "should_terminate", None)
    state.maybe_shutdown()
    assert not consumer.is_told_to_stop()
    for status in (0, 1, True):  # EX_OK is a request to stop, too
        monkeypatch.setattr(state, "should_stop", status)
        with pytest.raises(WorkerShutdown):
            state.maybe_shutdown()
        assert consumer.is_told_to_stop()
        assert not consumer.is_told_to_stop_cold()
    monkeypatch.setattr(state, "should_terminate", 0)
    with pytest.raises(WorkerTerminate):
        state.maybe_shutdown()
    assert consumer.is_told_to_stop_cold()


def test_a_worker_ends_with_the_exitcode_that_it_was_given() -> None:
    """The process ends with `WorkController.exitcode`. The exit code of WorkerTerminate is lost."""
    app = Celery("contract", broker="memory://", set_as_current=False)
    worker = WorkController(app, pool_cls="solo", hostname="worker@contract")
    assert worker.exitcode is None
    raised = consumer.ending(worker, os.EX_USAGE)
    assert isinstance(raised, WorkerTerminate)
    worker.terminate()
    assert worker.exitcode == os.EX_USAGE


def test_shared_memory_is_made_in_the_folder_of_config() -> None:
    """Python's multiprocessing uses the folder in its process's `_config` and creates none of its own."""
    program = (
        "import multiprocessing.util, tempfile\n"
        "from mcp_app.celery_adapter.prefork import leave_no_temporary_folder\n"
        "leave_no_temporary_folder()\n"
        "assert multiprocessing.current_process()._config['tempdir'] == tempfile.gettempdir()\n"
        "assert multiprocessing.util.get_temp_dir() == tempfile.gettempdir()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_mailbox_publishes_with_the_producer_pool_that_it_was_given() -> None:
    """The copy of a mailbox for one connection gets its producers from `Mailbox.producer_pool` only."""
    taken: list[str] = []

    class Recorded:
        def publish(self, message: Any, **options: Any) -> None:
            taken.append(message["method"])

    class Acquired:
        def __enter__(self) -> Recorded:
            return Recorded()

        def __exit__(self, *args: object) -> None:
            pass

    with Connection("memory://") as connection:
        mailbox = Mailbox("contract", type="fanout")(connection)
        mailbox.producer_pool = SimpleNamespace(acquire=Acquired)
        mailbox.abcast("mcp_cancel", {"request_ids": []})
    assert taken == ["mcp_cancel"]


def test_the_registry_knows_content_types_by_name() -> None:
    """kombu's registry of serializers has `name_to_type`."""
    assert registry.name_to_type["json"] == content_type("json") == "application/json"
    assert content_type("application/json") == "application/json"
    assert content_type("nobody-registered-it") == "nobody-registered-it"


def test_the_hub_calls_on_tick_in_each_turn() -> None:
    """`Hub.on_tick` is a set of functions, which may change the set while they are called."""
    hub = Hub()
    turns: list[int] = []

    def tick() -> None:
        turns.append(1)
        hub.on_tick.discard(tick)
        hub.on_tick.add(tick)

    hub.on_tick.add(tick)
    hub.call_soon(lambda: None)
    read, write = os.pipe()
    hub.add_reader(read, os.read, read, 1)
    os.write(write, b"!!")
    loop = hub.create_loop()
    next(loop)
    next(loop)
    assert len(turns) == 2
    hub.close()
    os.close(read)
    os.close(write)


def test_the_hub_forgets_its_readers_when_it_is_reset() -> None:
    """`Hub.readers` has the watched descriptors. A worker resets its hub when it loses its broker."""
    hub = Hub()
    read, write = os.pipe()
    hub.add_reader(read, lambda: None)
    assert read in hub.readers
    tick = SimpleNamespace
    hub.on_tick.add(tick)
    hub.reset()
    assert read not in hub.readers
    assert tick in hub.on_tick
    hub.close()
    os.close(read)
    os.close(write)
