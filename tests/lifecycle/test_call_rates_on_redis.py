"""A tool's rate is counted in a real Redis by independent processes.

In each window of the clock no more calls are admitted than the rate allows. A test near the end sees two windows.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
from django.core.cache import cache

from mcp_app.lifecycle.limits.call_rates import CallRate, UncountableError, take
from tests.lifecycle import counting
from tests.support.brokers import refusing_port, silent_port
from tests.support.site.services import ServicesMissingError, missing, own_services

pytestmark = pytest.mark.engines
PROCESSES, THREADS, CALLS = 2, 8, 25


def caches(location: str) -> dict[str, Any]:
    return {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": location,
            "KEY_PREFIX": "call-rates",
            "OPTIONS": {"socket_timeout": 0.5, "socket_connect_timeout": 0.5},
        }
    }


@pytest.fixture(scope="module")
def location() -> Iterator[str]:
    """The URL of a Redis database of its own, which is emptied afterwards."""
    try:
        with own_services() as services:
            yield services["MCPSITE_BROKER"]
    except ServicesMissingError as error:
        missing(f"NO Redis: {error}")


@pytest.fixture(scope="module")
def let_in(location: str) -> Iterator[Callable[..., int]]:
    """Return how many calls the processes admit if all call at once."""
    with ProcessPoolExecutor(
        PROCESSES,
        mp_context=get_context("spawn"),
        initializer=counting.prepare,
        initargs=(dict(os.environ), caches(location)),
    ) as processes:

        def let_in(rate: str, who: str, now: float) -> int:
            counted = [processes.submit(counting.let_in, rate, who, now, THREADS, CALLS) for _ in range(PROCESSES)]
            return sum(each.result(60) for each in counted)

        yield let_in


def test_processes_together_let_in_as_many_as_the_rate_says_in_each_window(let_in: Callable[..., int]) -> None:
    assert let_in("30/m", "ada", 61.0) == 30
    assert let_in("30/m", "ada", 119.0) == 0
    assert let_in("30/m", "ada", 120.0) == 30  # the next window, a second later
    assert let_in("30/m", "eve", 61.0) == 30
    assert let_in("30/h", "ada", 61.0) == 30


def test_a_count_is_forgotten_soon_after_its_window(location: str, settings: Any) -> None:
    import redis

    settings.CACHES = caches(location)
    take(CallRate.read("5/m"), ("soon",), 0.0)
    with redis.Redis.from_url(location) as store:
        kept = [store.ttl(key) for key in store.scan_iter("call-rates:*")]
    cache.close()
    assert kept
    assert all(60 < seconds <= 3_660 for seconds in kept)


def test_where_redis_refuses_nothing_is_counted_and_afterwards_it_is_again(location: str, settings: Any) -> None:
    rate = CallRate.read("1/m")
    settings.CACHES = caches(location)
    assert take(rate, ("once",), 0.0) == 0
    with refusing_port() as port:
        settings.CACHES = caches(f"redis://127.0.0.1:{port}")
        with pytest.raises(UncountableError):
            take(rate, ("once",), 0.0)
    settings.CACHES = caches(location)
    assert take(rate, ("once",), 0.0) == 60
    cache.close()


def test_a_redis_that_says_nothing_is_waited_for_as_long_as_its_options_say(settings: Any) -> None:
    with silent_port() as port:
        settings.CACHES = caches(f"redis://127.0.0.1:{port}")
        with pytest.raises(UncountableError):
            take(CallRate.read("1/m"), ("anybody",), 0.0)
        cache.close()
