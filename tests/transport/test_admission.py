"""Token buckets limit the rate of requests that a server process accepts."""

import pytest

from mcp_app.transport.process import admission
from mcp_app.transport.process.admission import TokenBuckets


@pytest.fixture(name="rate_of_two")
def _rate_of_two() -> TokenBuckets:
    return TokenBuckets()


def take(of: TokenBuckets, key: str, now: float) -> bool:
    return of.take(key, now, burst=2, per_second=0.5) == 0


def test_a_burst_is_let_in_and_then_as_many_as_time_earns(rate_of_two: TokenBuckets) -> None:
    assert [take(rate_of_two, "a", 0.0) for _ in range(3)] == [True, True, False]
    assert [take(rate_of_two, "a", now) for now in (1.0, 2.0, 2.5, 4.0)] == [False, True, False, True]
    assert [take(rate_of_two, "a", 1_000.0) for _ in range(3)] == [True, True, False]


def test_each_has_a_bucket_of_its_own(rate_of_two: TokenBuckets) -> None:
    assert [take(rate_of_two, key, 0.0) for key in "aaabbb"] == [True, True, False] * 2


def test_who_is_refused_is_told_when_a_token_will_be_there(rate_of_two: TokenBuckets) -> None:
    assert [rate_of_two.take("a", 0.0, burst=2, per_second=0.5) for _ in range(3)] == [0, 0, 2.0]
    assert rate_of_two.take("a", 1.0, burst=2, per_second=0.5) == 1.0
    assert rate_of_two.take("a", 2.0, burst=2, per_second=0.5) == 0


def test_buckets_that_were_not_used_for_longest_are_forgotten(
    rate_of_two: TokenBuckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MAX_BUCKETS", 2)
    assert [take(rate_of_two, key, 0.0) for key in "aabb"] == [True] * 4
    assert not take(rate_of_two, "a", 0.0)
    assert take(rate_of_two, "c", 0.0)
    assert [take(rate_of_two, key, 0.0) for key in "ab"] == [False, True]
