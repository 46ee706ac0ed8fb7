"""What waits in a batch for too long is published by one look and one word; a batch in threads ends with its last."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import UUID

import pytest
from celery import current_app
from django_celery_results.models import TaskResult

from mcp_app.execution import left_behind
from mcp_app.execution.left_behind import LeftBehind
from mcp_app.execution.messages import batch_broken
from mcp_app.execution.thread_pool import Whole
from mcp_app.lifecycle import transitions, wakeups
from mcp_app.states import ProcessRole, Status
from tests.lifecycle import brokers, rows

QUEUE = "left-behind"


@dataclass
class Later:
    """What is to be done after some seconds, done when the test says so."""

    planned: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.planned.append((seconds, action))

    def do(self) -> None:
        [(_, action)] = self.planned
        self.planned.clear()
        action()


@dataclass
class Batch:
    request_ids: list[str]
    is_active: bool = True


class Clock:
    """Looks are due a second after a batch has begun; time goes on when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.later = Later()
        self.looking = LeftBehind(self.later.after)
        monkeypatch.setattr(left_behind, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(left_behind, "HELD_UP", 1.0)

    def until_the_look(self) -> float:
        """Do the only one that is planned; after how many seconds."""
        [(seconds, _)] = self.later.planned
        self.now += seconds
        self.later.do()
        return seconds


def messages() -> list[str]:
    found = []
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get(QUEUE, no_ack=True)) is not None:
            found.append(message.headers["id"])
    return found


def hinted(listener: socket.socket) -> set[UUID] | None:
    """What the next hint names; None: there is none."""
    try:
        return wakeups.named(listener.recv(wakeups.DATAGRAM_BYTES))
    except BlockingIOError:
        return None


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    monkeypatch.setattr(left_behind, "HELD_UP", 0.0)
    return Later()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_one_look_serves_all_batches_and_publishes_what_waits_in_those_that_run(later: Later) -> None:
    waiting, cancelled, over = (rows.queued(queue=QUEUE) for _ in range(3))
    rows.cancel(cancelled)
    looking = LeftBehind(later.after)
    looking.begun(Batch([str(waiting.pk), str(cancelled.pk)]))
    looking.begun(Batch([str(over.pk)], is_active=False))
    later.do()
    assert messages() == [str(waiting.pk)]
    assert not later.planned, "nothing is looked for where no batch runs"


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_who_waits_for_what_has_ended_in_a_batch_that_goes_on_is_told(
    later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "LONGEST_KEPT", 3600.0)
    server, worker = rows.alive(ProcessRole.SERVER), rows.alive(ProcessRole.WORKER)
    ended, runs_on = (rows.running(worker, server=server) for _ in range(2))
    asks = rows.asking(worker, server=server)
    waited_for = [ended, asks, runs_on]
    with wakeups.listening_socket(server.hex) as listener, wakeups.kept_together({row.pk for row in waited_for}):
        assert transitions.end_run(ended, Status.COMPLETED, result=rows.RESULT)
        looking = LeftBehind(later.after)
        looking.begun(Batch([str(row.pk) for row in waited_for]))
        later.do()
        assert hinted(listener) == {ended.pk, asks.pk}


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_batch_that_began_later_has_a_look_of_its_own(clock: Clock) -> None:
    early, late = (rows.queued(queue=QUEUE) for _ in range(2))
    clock.looking.begun(Batch([str(early.pk)]))
    clock.now += 0.75
    clock.looking.begun(Batch([str(late.pk)]))
    clock.now += 0.25
    clock.later.do()
    assert messages() == [str(early.pk)]
    assert clock.until_the_look() == 0.75, "when it is due, and no later"
    assert messages() == [str(late.pk)]


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_what_ends_late_in_a_batch_that_began_late_is_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "LONGEST_KEPT", 3600.0)
    server, worker = rows.alive(ProcessRole.SERVER), rows.alive(ProcessRole.WORKER)
    ends, runs_on = (rows.running(worker, server=server) for _ in range(2))
    waits = rows.queued(queue=QUEUE)
    clock.looking.begun(Batch([str(row.pk) for row in (ends, runs_on, waits)]))
    with wakeups.listening_socket(server.hex) as listener, wakeups.kept_together({ends.pk}):
        clock.until_the_look()
        assert (messages(), hinted(listener)) == ([str(waits.pk)], None)
        assert transitions.end_run(ends, Status.COMPLETED, result=rows.RESULT)
        clock.until_the_look()
        assert (messages(), hinted(listener)) == ([], {ends.pk}), "nothing is published twice"
    assert TaskResult.objects.get().task_id == str(ends.pk)
    assert not clock.later.planned


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_what_begins_during_a_look_puts_off_nobody_elses(clock: Clock) -> None:
    begins = Batch([str(rows.queued(queue=QUEUE).pk)])
    waits = rows.queued(queue=QUEUE)

    class Interrupted:
        request_ids: ClassVar[list[str]] = []

        @property
        def is_active(self) -> bool:
            clock.looking.begun(begins)
            return False

    clock.looking.begun(Interrupted())
    clock.now += 0.25
    clock.looking.begun(Batch([str(waits.pk)]))
    clock.now += 0.75
    clock.later.do()
    assert min(seconds for seconds, _ in clock.later.planned) == 0.25


@pytest.mark.timeout(15)
@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_silent_broker_is_waited_for_once(
    configure: Callable[..., None], later: Later, caplog: pytest.LogCaptureFixture
) -> None:
    configure(PUBLISH_TIMEOUT=4.0)
    left = [rows.queued(queue=QUEUE) for _ in range(5)]
    looking = LeftBehind(later.after)
    with brokers.silent_port() as port, brokers.celery_on(brokers.URLS["amqp"].format(port=port)):
        for row in left:
            looking.broken([str(row.pk)])
            later.do()
    assert caplog.text.count("wait for supervision") == 1


@dataclass
class Heard:
    """What Celery, and whoever looks after batches, hear of one."""

    accepted: list[int] = field(default_factory=list)
    over: list[Any] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def hear(self, request_ids: list[str], **_: Any) -> None:
        self.broken += request_ids


@pytest.fixture
def heard() -> Any:
    heard = Heard()
    batch_broken.connect(heard.hear)
    yield heard
    batch_broken.disconnect(heard.hear)


def whole_of(heard: Heard, *parts: "Future[Any]") -> Whole:
    whole = Whole(
        [str(number) for number in range(len(parts))], heard.over.append, lambda pid, at: heard.accepted.append(pid)
    )
    for part in parts:
        whole.add(part)
    whole.is_complete()
    return whole


def test_a_batch_in_threads_begins_with_its_first_call_and_is_over_with_its_last(heard: Heard) -> None:
    first, last = Future[Any](), Future[Any]()
    whole = whole_of(heard, first, last)
    for _ in range(2):
        whole.accept(os.getpid(), 0.0)
    last.set_exception(ValueError("of one call"))
    assert (heard.accepted, heard.over, whole.done.done()) == ([os.getpid()], [], False)
    first.set_result(None)
    assert (len(heard.over), heard.broken, whole.done.done()) == (1, [], True)


def test_calls_that_a_pool_drops_as_it_ends_are_for_others(heard: Heard) -> None:
    first, dropped = Future[Any](), Future[Any]()
    whole = whole_of(heard, first, dropped)
    whole.accept(os.getpid(), 0.0)
    dropped.cancel()
    first.set_result(None)
    assert heard.broken == ["0", "1"]


def test_of_a_batch_that_never_began_the_broker_knows(heard: Heard) -> None:
    dropped = Future[Any]()
    whole = whole_of(heard, dropped)
    dropped.cancel()
    assert (heard.accepted, heard.over, heard.broken, whole.done.done()) == ([], [], [], True)
