"""The interrupt strikes the armed body of the targeted request, once, and nothing else."""

import logging
import sys
import threading
import time
import uuid

import pytest

from mcp_app.execution.interrupt import Raised, Returned, SignalInterrupter, ToolCancelled
from mcp_app.execution.thread_interrupt import ThreadInterrupter
from mcp_app.execution.watcher import ASK_TIMES
from mcp_app.execution.with_statements import is_entering


@pytest.fixture(params=[SignalInterrupter, ThreadInterrupter])
def interrupter(request):
    return request.param()


def interrupt_from_another_thread(interrupter, request_id, *, when: threading.Event) -> threading.Thread:
    def strike():
        when.wait(5)
        # Again, as the watcher does: a signal that comes right before a system call begins does not end that.
        for asked in range(250):
            interrupter.interrupt(request_id, insist=asked > ASK_TIMES)
            if interrupter.raised:
                return
            time.sleep(0.02)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


@pytest.mark.fault("A6")
def test_a_sleeping_body_is_interrupted_and_its_finally_runs(interrupter):
    request_id, armed, cleaned = uuid.uuid4(), threading.Event(), []
    nap = 30 if isinstance(interrupter, SignalInterrupter) else 0.05  # a thread that sleeps in C code is not woken

    def body():
        try:
            armed.set()
            while not interrupter.raised:
                time.sleep(nap)
        finally:
            cleaned.append(True)

    thread = interrupt_from_another_thread(interrupter, request_id, when=armed)
    outcome = interrupter.run(request_id, body)
    thread.join()
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, ToolCancelled)
    assert cleaned
    assert interrupter.raised


@pytest.mark.fault("A7")
def test_except_exception_does_not_swallow_the_interrupt(interrupter):
    request_id = uuid.uuid4()

    def body():
        try:
            interrupter.interrupt(request_id)
        except Exception:
            return "swallowed"

    assert isinstance(interrupter.run(request_id, body), Raised)


def test_an_interrupt_for_another_request_does_nothing(interrupter):
    def body():
        interrupter.interrupt(uuid.uuid4())
        return "untouched"

    assert interrupter.run(uuid.uuid4(), body) == Returned("untouched")


def test_an_interrupt_after_the_end_does_nothing(interrupter):
    request_id = uuid.uuid4()
    assert interrupter.run(request_id, lambda: "done") == Returned("done")
    interrupter.interrupt(request_id)


def test_an_interrupt_that_was_swallowed_is_not_raised_again(interrupter):
    request_id = uuid.uuid4()

    def body():
        try:
            interrupter.interrupt(request_id)
        except BaseException:
            interrupter.interrupt(request_id)
            return "stubborn"

    assert interrupter.run(request_id, body) == Returned("stubborn")


def test_a_shield_puts_the_interrupt_off_to_its_end(interrupter):
    request_id, steps = uuid.uuid4(), []

    def body():
        with interrupter.shield():
            interrupter.interrupt(request_id)
            steps.append("inside")
            with interrupter.shield():
                steps.append("nested")
        steps.append("after")

    assert isinstance(interrupter.run(request_id, body), Raised)
    assert steps == ["inside", "nested"]


def test_a_shielded_block_that_raises_still_ends_in_the_interrupt(interrupter):
    request_id = uuid.uuid4()

    def body():
        with interrupter.shield():
            interrupter.interrupt(request_id)
            raise ValueError("the block's own")

    outcome = interrupter.run(request_id, body)
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, ToolCancelled)


def test_an_interrupt_is_not_swallowed_by_a_finalizer(interrupter):
    request_id = uuid.uuid4()

    class Finalized:
        def __del__(self):
            interrupter.interrupt(request_id)

    def body():
        Finalized()
        assert not interrupter.raised
        interrupter.interrupt(request_id)

    outcome = interrupter.run(request_id, body)
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, ToolCancelled)


@pytest.mark.fault("H1")
def test_an_interrupt_does_not_leave_a_lock_of_logging_held(interrupter):
    request_id, raised_inside = uuid.uuid4(), []

    class Interrupted(logging.Handler):
        def emit(self, record):
            interrupter.interrupt(request_id)
            raised_inside.append(interrupter.raised)

    record = logging.makeLogRecord({"msg": "words"})
    assert interrupter.run(request_id, lambda: Interrupted().handle(record)) is not None
    assert raised_inside == [False]


@pytest.mark.fault("H1")
def test_the_moment_behind_enter_is_known_where_cpython_may_raise_there():
    seen = []

    class Looks:
        def __enter__(self):
            seen.append(is_entering(sys._getframe(1)))

        def __exit__(self, *_):
            seen.append(is_entering(sys._getframe(1)))

    with Looks():
        seen.append(is_entering(sys._getframe()))
    assert seen == [sys.version_info >= (3, 14), False, False]


@pytest.mark.fault("H1")
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_H1_an_interrupt_at_any_moment_leaves_no_lock_held_that_the_tool_took_with_a_with(interrupter, make):
    lock = make()

    def take_and_give():
        armed.set()
        while True:
            with lock:
                held.append(None)
                held.pop()

    def is_free():
        if free := lock.acquire(blocking=False):
            lock.release()
        found.append(free)

    for _ in range(20):
        request_id, armed, held, found = uuid.uuid4(), threading.Event(), [], []
        striking = interrupt_from_another_thread(interrupter, request_id, when=armed)
        outcome = interrupter.run(request_id, take_and_give)
        striking.join()
        assert isinstance(outcome.error, ToolCancelled)
        other = threading.Thread(target=is_free)
        other.start()
        other.join()
        assert found == [True]


@pytest.mark.fault("H1")
def test_H1_a_thread_that_is_interrupted_while_it_waits_for_a_lock_gives_that_back():
    interrupter, request_id = ThreadInterrupter(), uuid.uuid4()
    lock, thread, taken = threading.Lock(), threading.get_ident(), threading.Event()

    def wait():
        with lock:
            while True:
                pass

    def strike_and_let_go():
        with lock:
            taken.set()
            while (frame := sys._current_frames()[thread]).f_code is not wait.__code__ or frame.f_lasti <= 0:
                time.sleep(0.001)
            for _ in range(5):  # it waits by now, or is about to
                interrupter.interrupt(request_id, insist=True)
                time.sleep(0.02)
        while not interrupter.raised:
            interrupter.interrupt(request_id)
            time.sleep(0.02)

    striking = threading.Thread(target=strike_and_let_go)
    striking.start()
    taken.wait(5)
    outcome = interrupter.run(request_id, wait)
    striking.join()
    assert isinstance(outcome.error, ToolCancelled)
    assert not lock.locked()


@pytest.mark.fault("H1")
def test_H1_a_tool_that_waits_for_its_own_lock_is_interrupted_and_has_not_taken_it():
    # By a signal alone: an exception that another thread leaves is not seen before the lock is taken.
    interrupter, request_id = SignalInterrupter(), uuid.uuid4()
    lock, armed = threading.Lock(), threading.Event()

    def wait():
        armed.set()
        with lock:
            raise AssertionError("somebody else has it")

    with lock:
        striking = interrupt_from_another_thread(interrupter, request_id, when=armed)
        outcome = interrupter.run(request_id, wait)
        striking.join()
        assert isinstance(outcome.error, ToolCancelled)
        assert lock.locked()
    assert not lock.locked()


def test_a_shield_that_ends_inside_logging_leaves_the_interrupt_to_be_asked_for_again(interrupter):
    request_id, passed = uuid.uuid4(), []

    class Shielding(logging.Handler):
        def emit(self, record):
            with interrupter.shield():
                interrupter.interrupt(request_id)
            passed.append(interrupter.raised)

    def body():
        Shielding().handle(logging.makeLogRecord({"msg": "words"}))
        interrupter.interrupt(request_id)
        passed.append("the next line")

    outcome = interrupter.run(request_id, body)
    assert isinstance(outcome, Raised)
    assert passed == [False]


def test_an_interrupt_that_insists_is_raised_wherever_the_body_is(interrupter):
    request_id = uuid.uuid4()

    class Stuck(logging.Handler):
        def emit(self, record):
            interrupter.interrupt(request_id, insist=True)

    outcome = interrupter.run(request_id, lambda: Stuck().handle(logging.makeLogRecord({})))
    assert isinstance(outcome, Raised)


def test_a_shield_in_another_thread_puts_nothing_off(interrupter):
    request_id, inside, over = uuid.uuid4(), threading.Event(), threading.Event()

    def elsewhere():
        with interrupter.shield():
            inside.set()
            over.wait(5)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    inside.wait(5)
    outcome = interrupter.run(request_id, lambda: interrupter.interrupt(request_id))
    over.set()
    thread.join()
    assert isinstance(outcome, Raised)


def test_many_late_interrupts_hit_no_innocent_body(interrupter):
    """Interrupts aimed at bodies that are ending while others begin: only the targeted one may be struck."""
    stop, targets = threading.Event(), [uuid.uuid4()]

    def strike():
        while not stop.is_set():
            interrupter.interrupt(targets[-1])

    thread = threading.Thread(target=strike)
    thread.start()
    struck_innocent = 0
    try:
        for _ in range(2_000):
            targeted, innocent = uuid.uuid4(), uuid.uuid4()
            targets.append(targeted)
            interrupter.run(targeted, lambda: sum(range(50)))
            outcome = interrupter.run(innocent, lambda: sum(range(50)))
            struck_innocent += isinstance(outcome, Raised)
    finally:
        stop.set()
        thread.join()
    assert struck_innocent == 0


def struck_where_it_waits(body, method: str):
    """The outcome of a body in a thread that is sent the interrupt while it waits for the lock in that method."""
    made, request_id, outcomes = [], uuid.uuid4(), []

    def run():
        made.append(ThreadInterrupter())
        ready.wait(5)
        outcomes.append(made[0].run(request_id, lambda: body(made[0])))

    ready, thread = threading.Event(), threading.Thread(target=run)
    thread.start()
    while not made:
        time.sleep(0.001)
    begun = threading.Event()
    made[0]._arm = lambda request_id, arm=made[0]._arm: (arm(request_id), begun.set(), may_go_on.wait(5))
    may_go_on = threading.Event()
    ready.set()
    begun.wait(5)
    with made[0]._lock:
        may_go_on.set()
        while sys._current_frames()[thread.ident].f_code.co_name != method:
            time.sleep(0.001)
        made[0].interrupt(request_id)
    thread.join()
    return outcomes[0], made[0]


def test_an_interrupt_that_was_sent_as_the_body_ended_is_taken_back():
    outcome, interrupter = struck_where_it_waits(lambda interrupter: "done", "_disarm")
    assert outcome == Returned("done")
    assert not interrupter.raised


def test_an_interrupt_that_was_sent_as_a_shield_began_waits_for_its_end():
    steps = []

    def body(interrupter):
        with interrupter.shield():
            steps.append("inside")
            sum(range(100))
            steps.append("still inside")
        steps.append("after")

    outcome, _ = struck_where_it_waits(body, "_enter_shield")
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, ToolCancelled)
    assert steps == ["inside", "still inside"]
