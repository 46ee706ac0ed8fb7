"""Call rates are counted in the cache, and open calls of a tool are counted as rows."""

from uuid import uuid4

import pytest
from django.core.cache import cache

from mcp_app.lifecycle.limits import concurrency
from mcp_app.lifecycle.limits.call_rates import CallRate, UncountableError, take
from mcp_app.lifecycle.requests import transitions
from mcp_app.states import Status
from tests.support import rows
from tests.support.racing import race

pytestmark = pytest.mark.usefixtures("_counted_from_zero")


DUMMY = "django.core.cache.backends.dummy.DummyCache"


@pytest.fixture
def _counted_from_zero():
    cache.clear()


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1/s", CallRate(1, 1)), ("10/m", CallRate(10, 60)), ("5/h", CallRate(5, 3600)), ("999/d", CallRate(999, 86400))],
)
def test_a_rate_is_written_as_a_number_and_a_time(text, rate):
    assert CallRate.read(text) == rate


@pytest.mark.parametrize("text", ["", "10", "0/m", "-1/m", "1.5/m", "10/minute", "10 / m", "10/m\n", 10, None])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match="10/m"):
        CallRate.read(text)


def test_a_caller_waits_for_the_next_window():
    rate = CallRate.read("2/m")
    assert [take(rate, ("ada", "dig"), now) for now in (60.0, 61.0, 62.0, 119.0)] == [0.0, 0.0, 58.0, 1.0]
    assert take(rate, ("eve", "dig"), 62.0) == take(rate, ("ada", "fill"), 62.0) == 0.0
    assert take(rate, ("ada", "dig"), 120.0) == 0.0


def test_callers_at_one_moment_are_counted_one_by_one():
    rate = CallRate.read("5/m")
    waits = race(*[lambda: take(rate, ("ada",), 0.0)] * 20)
    assert waits.count(0.0) == 5


def test_a_cache_that_counts_nothing_says_so(settings):
    settings.CACHES = {"default": {"BACKEND": DUMMY}}
    with pytest.raises(UncountableError):
        take(CallRate.read("1/m"), ("ada",), 0.0)


def test_of_calls_at_one_moment_no_more_are_open_than_may_be():
    stored = race(*[lambda: concurrency.submit(rows.submission(tool="one"), 2, transitions.submit)] * 8)
    assert sum(row is not None for row in stored) == 2


@pytest.mark.usefixtures("snapshots")
def test_a_limit_holds_if_each_transaction_sees_the_rows_of_one_moment():
    for _ in range(5):
        tool = uuid4().hex
        stored = race(*[lambda tool=tool: concurrency.submit(rows.submission(tool=tool), 2, transitions.submit)] * 8)
        assert sum(row is not None for row in stored) == 2


def test_only_a_caller_s_own_calls_of_the_tool_that_are_being_done_count(worker):
    def has_access(**changes):
        return concurrency.submit(rows.submission(**changes), 1, lambda submission: submission) is not None

    row = rows.running(worker)
    assert not has_access()
    assert has_access(tool="fill")
    assert has_access(principal=rows.STRANGER)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert has_access()
    rows.queued(parent=row.pk, depth=1)
    assert has_access()
    # Calls that a tool started count for a limit that the tool itself sets.
    assert concurrency.submit(rows.submission(), 1, lambda submission: submission, with_started=True) is None
