"""The interrupt strikes the armed body of the targeted request, once, and nothing else."""

import logging
import sys
import threading
import time
import uuid

import pytest

from mcp_app.execution.stopping.interrupt import Raised, Returned, SignalInterrupter, ToolCancelled
from mcp_app.execution.stopping.thread_interrupt import ThreadInterrupter
from tests.execution.striking import interrupt_from_another_thread


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
    """Return the outcome of a body in a thread that is interrupted while it waits for the lock in that method."""
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
