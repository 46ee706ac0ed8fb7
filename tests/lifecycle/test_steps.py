"""The hand-written statements: what an error or an interrupt leaves behind, and processes at the same row."""

import ctypes
import multiprocessing
import threading
import time

import pytest
from django.db import Error, connections

from mcp_app import databases
from mcp_app.lifecycle.requests import statements, transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.statements import Addition
from mcp_app.models import Request
from mcp_app.states import EventKind, Status
from tests.support import rows

EVENT = Event(EventKind.LOG, {"level": "info", "data": "dug"})
REFUSED = "refused"
REFUSES = f"""
CREATE TRIGGER tests_refuse BEFORE INSERT ON mcp_app_requestevent FOR EACH ROW BEGIN
    IF NEW.data LIKE '%{REFUSED}%' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{REFUSED}'; END IF;
END"""


class Interrupt(BaseException):
    """Raised in a thread at any instruction."""


def add(row, *events):
    return statements.append([Addition(row.pk, events or (EVENT,), {})])


def assert_whole(row):
    """Assert that the numbers of the events have no gaps, and that the row knows the newest."""
    assert rows.numbers(row) == list(range(1, rows.fresh(row).event_seq + 1))


@pytest.fixture
def on_mysql():
    if databases.connection().vendor != "mysql":
        pytest.skip("a step is one statement on the other databases")


@pytest.fixture
def refusing(on_mysql):
    with databases.connection().cursor() as cursor:
        cursor.execute(REFUSES)
    yield
    with databases.connection().cursor() as cursor:
        cursor.execute("DROP TRIGGER tests_refuse")


@pytest.mark.usefixtures("refusing")
def test_an_event_that_cannot_be_stored_leaves_no_open_transaction(worker):
    row = rows.running(worker)
    for _ in range(2):
        with pytest.raises(Error, match=REFUSED):
            add(row, EVENT, Event(EventKind.LOG, {"data": REFUSED}))
        with databases.connection().cursor() as cursor:
            cursor.execute("SELECT @@in_transaction")
            assert cursor.fetchone() == (0,)
    assert rows.numbers(row) == [1, 2]
    assert add(row)
    assert rows.numbers(row) == [1, 2, 3]


@pytest.mark.usefixtures("on_mysql")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the interrupt hits finalizers as well
def test_an_interrupt_in_a_step_leaves_a_connection_that_can_be_used(worker):
    row = rows.running(worker)
    outcomes, over = [], threading.Event()

    def keep_adding():
        while not over.is_set():
            try:
                add(row)
            except Interrupt:
                outcomes.append("interrupted")
            except Error as error:
                outcomes.append(error)
        databases.connection().close()

    def guarded():
        while not over.is_set():
            try:
                keep_adding()
            except Interrupt:  # while it handled another
                continue

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        until = time.monotonic() + 30
        while outcomes.count("interrupted") < 100 and time.monotonic() < until:
            time.sleep(0.003)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupt))
    finally:
        over.set()
        thread.join(10)
    assert set(outcomes) == {"interrupted"}
    assert_whole(row)


def _compete(keys, worker, number, claimed, ended):
    for key in keys:
        if transitions.claim(key, worker=worker, pid=number):
            claimed.put(key)
    for key in keys:
        transitions.record(key, [EVENT] * 3)
        if number % 2:
            rows.cancel(Request(pk=key))
        if transitions.finish(key, Status.COMPLETED, worker=worker, result=rows.RESULT):
            ended.put(key)
    claimed.close()
    ended.close()


def test_of_many_processes_one_claims_a_request_and_one_ends_it(worker):
    keys = [rows.queued().pk for _ in range(10)]
    connections.close_all()  # the processes would share them
    process = multiprocessing.get_context("fork")
    claimed, ended = process.Queue(), process.Queue()
    racing = [process.Process(target=_compete, args=(keys, worker, number, claimed, ended)) for number in range(4)]
    for each in racing:
        each.start()
    assert sorted(claimed.get(timeout=20) for _ in keys) == sorted(keys)
    assert sorted(ended.get(timeout=20) for _ in keys) == sorted(keys)
    for each in racing:
        each.join(20)
        assert each.exitcode == 0
    assert claimed.empty()
    assert ended.empty()
    for row in Request.objects.filter(pk__in=keys):
        assert row.status in (Status.COMPLETED, Status.CANCELLED)
        assert_whole(row)
