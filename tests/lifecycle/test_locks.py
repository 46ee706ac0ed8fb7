"""A step waits for a lock that another transaction holds, and no cancellation is lost during the wait."""

import logging
import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest
from django.db import OperationalError

from mcp_app import databases
from mcp_app.lifecycle.database import retries
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import ChangeVersion
from mcp_app.states import EventKind, Outcome, Status
from tests.support import rows
from tests.support.racing import PATIENCE, race


def on(vendor):
    """Skip on another database. The test calls this, because the settings exist only then."""
    if databases.connection().vendor != vendor:
        pytest.skip(f"this is how {vendor} locks")


@contextmanager
def write_lock():
    """Hold the write lock of the SQLite file. Yields a function that releases it, from any thread."""
    name = databases.connection().settings_dict["NAME"]
    with closing(sqlite3.connect(name, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield lambda: other.execute("ROLLBACK")


class OnFirstRecord(logging.Handler):
    def __init__(self, action):
        super().__init__()
        self._action = action
        self.fired = 0

    def emit(self, record):
        self.fired += 1
        if self.fired == 1:
            self._action()


@pytest.fixture
def on_first_retry(caplog):
    caplog.set_level("INFO", logger=retries.logger.name)
    handlers = []

    def call(action):
        handlers.append(OnFirstRecord(action))
        retries.logger.addHandler(handlers[-1])
        return handlers[-1]

    yield call
    for handler in handlers:
        retries.logger.removeHandler(handler)


def test_a_cancellation_waits_for_a_held_write_lock(worker):
    on("sqlite")
    row = rows.running(worker)
    with write_lock() as give_up:
        timer = threading.Timer(0.3, give_up)
        timer.start()
        assert rows.cancel(row) == Outcome.ACCEPTED
        timer.join(PATIENCE)
    assert rows.outcomes(row) == [Outcome.ACCEPTED]


@pytest.mark.fault("D1")
def test_a_cancellation_that_was_told_of_a_locked_database_tries_again(worker, on_first_retry):
    on("sqlite")
    row = rows.running(worker)
    with databases.connection().cursor() as cursor, write_lock() as give_up:
        cursor.execute("PRAGMA busy_timeout=0")
        waited = on_first_retry(give_up)
        assert rows.cancel(row) == Outcome.ACCEPTED
        cursor.execute("PRAGMA busy_timeout=10000")
    assert waited.fired == 1
    assert rows.outcomes(row) == [Outcome.ACCEPTED]


def test_a_deadlock_is_tried_again(on_first_retry):
    on("postgresql")
    waited = on_first_retry(lambda: None)
    met = threading.Barrier(2)
    subjects = ("left", "right")
    for subject in subjects:
        ChangeVersion.bump(subject)

    def crossing(first, second):
        attempts = []

        @transactional
        def bump():
            attempts.append(None)
            ChangeVersion.bump(first)
            if len(attempts) == 1:
                met.wait(PATIENCE)
            ChangeVersion.bump(second)

        bump()

    race(lambda: crossing(*subjects), lambda: crossing(*reversed(subjects)))
    assert waited.fired == 1
    assert sorted(ChangeVersion.objects.values_list("version", flat=True)) == [3, 3]


def test_inside_an_outer_transaction_nothing_is_repeated():
    attempts = []

    @transactional
    def fail():
        attempts.append(None)
        raise OperationalError("database is locked")

    with pytest.raises(OperationalError), databases.atomic():
        fail()
    assert len(attempts) == 1


@pytest.mark.fault("D1")
def test_D1_the_waits_for_a_lock_double_up_to_the_longest_and_differ_at_random(monkeypatch):
    """Because waits differ, writers that were rejected at the same moment do not collide again."""
    waits = []
    monkeypatch.setattr(retries.time, "sleep", waits.append)

    @transactional
    def fail():
        raise OperationalError("database is locked")

    for _ in range(2):
        with pytest.raises(OperationalError):
            fail()
    one, other = waits[: retries.ATTEMPTS - 1], waits[retries.ATTEMPTS - 1 :]
    assert len(one) == len(other) == retries.ATTEMPTS - 1
    for number, (first, second) in enumerate(zip(one, other, strict=True)):
        middle = min(retries.FIRST_DELAY * 2**number, retries.LONGEST_DELAY)
        assert first != second
        assert 0.5 * middle <= min(first, second) < max(first, second) <= 1.5 * middle


def test_a_lock_that_is_never_given_up_is_an_error_in_the_end(monkeypatch):
    monkeypatch.setattr(retries, "LONGEST_DELAY", 0.0001)
    attempts = []

    @transactional
    def fail():
        attempts.append(None)
        raise OperationalError("database is locked")

    with pytest.raises(OperationalError):
        fail()
    assert len(attempts) == retries.ATTEMPTS


def test_a_transaction_that_is_repeated_leaves_one_trace():
    attempts = []

    @transactional
    def submit_badly():
        row = rows.queued()
        attempts.append(row)
        if len(attempts) < 3:
            raise OperationalError("database is locked")
        return row

    row = submit_badly()
    assert len(attempts) == 3
    assert rows.fresh(row).status == Status.QUEUED
    assert type(row).objects.count() == 1


def test_another_error_is_not_repeated():
    attempts = []

    @transactional
    def fail():
        attempts.append(None)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert len(attempts) == 1


@pytest.mark.fault("A8")
def test_a_write_beside_a_tool_keeps_no_lock_until_its_thread_runs_again(worker):
    """A tool that holds the interpreter may stop the thread as soon as the database has done its part."""
    on("sqlite")
    wrote = []

    def lock_afterwards(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if sql.startswith("INSERT"):
            wrote.append(sql.split()[2])
            with write_lock():
                pass
        return result

    row = rows.queued()
    with databases.connection().execute_wrapper(lock_afterwards):
        claimed = transitions.claim(row.pk, worker=worker, pid=1)
        transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": 1.0})], progress=1.0)
        assert transitions.end_run(claimed, Status.COMPLETED, result=rows.RESULT)
    assert wrote == ["mcp_claim", "mcp_append", "mcp_end"]
